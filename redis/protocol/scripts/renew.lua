-- Prolongs a lock that is still held, and confirms a claim. Never shortens it, never re-creates it.
-- KEYS[1] lock   KEYS[3] details of the queue   KEYS[4] last fencing token
-- ARGV[1] owner value   ARGV[2] ttl (ms)
-- Returns { 1 held, left (ms) }, { 0 gone } or { -1 another owner }
--#include "_confirm.lua"
local value = redis.call('GET', KEYS[1])
if not value then return { 0 } end
if value ~= ARGV[1] then return { -1 } end
local left = redis.call('PTTL', KEYS[1])
if left < tonumber(ARGV[2]) then
  redis.call('PEXPIRE', KEYS[1], ARGV[2])
  left = tonumber(ARGV[2])
end
if redis.call('PTTL', KEYS[4]) < left + 60000 then redis.call('PEXPIRE', KEYS[4], left + 60000) end
confirm(redis.call('HGET', KEYS[3], 'h'))
return { 1, left }
