-- Tells who holds the lock. Writes nothing.
-- KEYS[1] lock   KEYS[2] last fencing token
-- Returns { owner value or nil, left (ms), last token or 0 }
local value = redis.call('GET', KEYS[1])
local left = redis.call('PTTL', KEYS[1])
return { value, left, tonumber(redis.call('GET', KEYS[2]) or '0') }
