-- Takes the lock if it is free or if the owner id has it already; issues the next fencing token.
-- KEYS[1] lock   KEYS[2] last fencing token
-- ARGV[1] owner id   ARGV[2] nonce of the call   ARGV[3] ttl (ms)
-- ARGV[4] not after (ms, server time; 0: at any time)   ARGV[5] 'attach': only if the owner id has it
-- Returns { 1 granted, server time, left, token }, { 0 held or not yours, server time, left } or
-- { -1 too late, server time }; all times in ms.
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
--#include "_grant.lua"
local value = redis.call('GET', KEYS[1])
local left = redis.call('PTTL', KEYS[1])
local ttl = tonumber(ARGV[3])
local mine = ARGV[1] .. '#'
if tonumber(ARGV[4]) > 0 and now > tonumber(ARGV[4]) then return { -1, now } end
if value == mine .. ARGV[2] then return again(math.max(ttl, left)) end
local yours = value and #value == #mine + #ARGV[2] and string.sub(value, 1, #mine) == mine
if yours or (not value and ARGV[5] ~= 'attach') then return grant(math.max(ttl, left)) end
return { 0, now, left }
