-- The queue. KEYS[2] holds waiting values by ticket. KEYS[3] holds, by a letter and a name: 'n' the last
-- ticket, there as long as anybody waits; 'd'value 'ticket since claim inbox'; 'i'inbox end of its
-- lease; 'p'inbox '1' if it has proved that it listens; 'c'inbox how many of its waiters are queued;
-- 't'value end of a tombstone; 'h' the holder that came from the queue, 'u' (claim unconfirmed) or 'c'
-- and 'inbox value'.
local function parse(entry)
  if not entry then return nil end
  return string.match(entry, '^(%d+) (%d+) (%d+) (.*)$')
end
-- Out of the queue, the ticket kept for the next ask. Returns how many of the inbox are left.
local function park(value, inbox)
  local queued = redis.call('ZREM', KEYS[2], value)
  return redis.call('HINCRBY', KEYS[3], 'c' .. inbox, 0 - queued)
end
-- Out of the queue for good.
local function drop(value, inbox)
  if park(value, inbox) > 0 then
    redis.call('HDEL', KEYS[3], 'd' .. value)
  else
    redis.call('HDEL', KEYS[3], 'd' .. value, 'c' .. inbox, 'i' .. inbox, 'p' .. inbox)
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
