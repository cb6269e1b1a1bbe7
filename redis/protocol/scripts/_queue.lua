-- The queue. KEYS[2] holds waiting values by ticket. KEYS[3] holds, by a letter and a name: 'n' the last
-- ticket, there as long as anybody waits; 'd'value 'ticket since claim inbox'; 'i'inbox end of its
-- lease; 'p'inbox '1' if it has proved that it listens; 't'value end of a tombstone; 'h' the holder that
-- came from the queue, 'u' (claim unconfirmed) or 'c' and 'inbox value'; 'l' until when those may come
-- back whose inbox was parked whole.
local function parse(entry)
  if not entry then return nil end
  return string.match(entry, '^(%d+) (%d+) (%d+) (.*)$')
end
-- Out of the queue for good. Without the second line it is parked: its ticket waits for its next ask.
local function drop(value)
  redis.call('ZREM', KEYS[2], value)
  redis.call('HDEL', KEYS[3], 'd' .. value)
end
-- The queue ends by itself unless somebody asks. A sorted set that was empty has no TTL any more.
local function keep()
  redis.call('PEXPIRE', KEYS[2], 30000)
  redis.call('PEXPIRE', KEYS[3], 30000)
end
-- Whether somebody listens to an inbox; nil if the user may not ask.
local function listens(inbox)
  local reply = redis.pcall('PUBSUB', 'NUMSUB', 'holdfast:inbox:' .. inbox)
  if reply.err then return nil end
  return reply[2] > 0
end
-- Forgets the queue when nobody is in it, parked, or kept out by a tombstone. Its count of tickets is
-- what puts those who come since behind the parked ones.
local function tidy()
  if redis.call('EXISTS', KEYS[2]) == 1 then return end
  if tonumber(redis.call('HGET', KEYS[3], 'l') or '0') > now then return end
  for _, field in ipairs(redis.call('HKEYS', KEYS[3])) do
    if string.find(field, '^[dt]') then return end
  end
  redis.call('DEL', KEYS[3])
end
