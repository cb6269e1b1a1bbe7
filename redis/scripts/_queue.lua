-- The queue. KEYS[2] holds waiting values by ticket. KEYS[3] holds, by a letter and a name: 'n' the last
-- ticket; 'd'value 'ticket since claim inbox'; 'i'inbox end of its lease; 'p'inbox '1' if it has proved
-- that it listens; 'c'inbox how many of its waiters are queued; 't'value end of a tombstone; 'h' the
-- holder that came from the queue, 'u' (claim unconfirmed) or 'c' and 'inbox value'.
local function details(value)
  local text = redis.call('HGET', KEYS[3], 'd' .. value)
  if not text then return nil end
  return string.match(text, '^(%d+) (%d+) (%d+) (.*)$')
end
-- Out of the queue, the ticket kept for the next ask.
local function park(value, inbox)
  if redis.call('ZREM', KEYS[2], value) == 1 then redis.call('HINCRBY', KEYS[3], 'c' .. inbox, -1) end
end
-- Out of the queue for good.
local function drop(value)
  local _, _, _, inbox = details(value)
  if not inbox then return redis.call('ZREM', KEYS[2], value) end
  park(value, inbox)
  redis.call('HDEL', KEYS[3], 'd' .. value)
  if tonumber(redis.call('HGET', KEYS[3], 'c' .. inbox) or '0') <= 0 then
    redis.call('HDEL', KEYS[3], 'c' .. inbox, 'i' .. inbox, 'p' .. inbox)
  end
end
-- Whether somebody listens to an inbox; nil if the user may not ask.
local function listens(inbox)
  local reply = redis.pcall('PUBSUB', 'NUMSUB', 'holdfast:inbox:' .. inbox)
  if reply.err then return nil end
  return reply[2] > 0
end
-- Forgets the place that nobody needs any more, and with it the last ticket.
local function tidy()
  if redis.call('HLEN', KEYS[3]) == 1 and redis.call('HEXISTS', KEYS[3], 'n') == 1 then
    redis.call('DEL', KEYS[3])
  end
end
