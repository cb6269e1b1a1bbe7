-- Tells who holds the lock and who waits. Writes nothing.
-- KEYS[1] lock   KEYS[2] waiting   KEYS[3] their details   KEYS[4] last fencing token
-- Returns { owner value or nil, left (ms), last token or '0', { waiting value, ms waited, … } }
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
--#include "_queue.lua"
local waiters = {}
for _, value in ipairs(redis.call('ZRANGE', KEYS[2], 0, -1)) do
  local _, since, _, inbox = parse(redis.call('HGET', KEYS[3], 'd' .. value))
  local lease = inbox and tonumber(redis.call('HGET', KEYS[3], 'i' .. inbox) or '0')
  if lease and lease > now then
    waiters[#waiters + 1] = value
    waiters[#waiters + 1] = now - tonumber(since)
  end
end
local value = redis.call('GET', KEYS[1])
local left = redis.call('PTTL', KEYS[1])
return { value, left, redis.call('GET', KEYS[4]) or '0', waiters }
