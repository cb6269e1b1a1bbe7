-- Takes the lock away from the owner that the caller saw, and from nobody else; ahead of all waiters.
-- KEYS[1] lock   KEYS[2] waiting   KEYS[3] their details   KEYS[4] last fencing token
-- ARGV[1] owner id   ARGV[2] nonce of the call   ARGV[3] ttl (ms)   ARGV[4] not after (ms, server
-- time; 0: at any time)   ARGV[5] the value to break
-- Returns { 1 granted, time, left, token }, { 0 another owner, time, left }, { -1 too late, time } or
-- { -2 ended by a tombstone, time }; times in ms.
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
--#include "_tell.lua"
--#include "_queue.lua"
--#include "_grant.lua"
if tonumber(ARGV[4]) > 0 and now > tonumber(ARGV[4]) then return { -1, now } end
local me = ARGV[1] .. '#' .. ARGV[2]
local value = redis.call('GET', KEYS[1])
local left = value and redis.call('PTTL', KEYS[1]) or -2
local life = math.max(tonumber(ARGV[3]), value == me and left or 0)
if tonumber(redis.call('HGET', KEYS[3], 't' .. me) or '0') > now then return { -2, now } end
if value == me then
  redis.call('PEXPIRE', KEYS[1], life)
  return { 1, now, life, redis.call('GET', KEYS[4]) or give(me, life) }
end
if value and value ~= ARGV[5] then return { 0, now, left } end
local inbox, holder = string.match(redis.call('HGET', KEYS[3], 'h') or '', '^[uc](.-) (.*)$')
local token = give(me, life)
redis.call('HDEL', KEYS[3], 'h')
if value and holder == value then tell(inbox, 's\n' .. value) end
return { 1, now, life, token }
