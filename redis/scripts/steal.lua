-- Takes the lock away from the owner that the caller saw, and from nobody else.
-- KEYS[1] lock   KEYS[2] last fencing token
-- ARGV[1] owner id   ARGV[2] nonce of the call   ARGV[3] ttl (ms)
-- ARGV[4] not after (ms, server time; 0: at any time)   ARGV[5] the value to break
-- Returns { 1 granted, server time, left, token }, { 0 another owner, server time, left } or
-- { -1 too late, server time }; all times in ms.
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
--#include "_grant.lua"
local value = redis.call('GET', KEYS[1])
local left = redis.call('PTTL', KEYS[1])
local ttl = tonumber(ARGV[3])
if tonumber(ARGV[4]) > 0 and now > tonumber(ARGV[4]) then return { -1, now } end
if value == ARGV[1] .. '#' .. ARGV[2] then return again(math.max(ttl, left)) end
if not value or value == ARGV[5] then return grant(ttl) end
return { 0, now, left }
