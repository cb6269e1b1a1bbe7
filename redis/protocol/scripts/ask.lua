-- Takes the lock if it is free and nobody waits; else queues, or stays in the queue.
-- KEYS[1] lock   KEYS[2] waiting   KEYS[3] their details   KEYS[4] last fencing token
-- ARGV[1] owner id   ARGV[2] nonce of the call   ARGV[3] ttl (ms)   ARGV[4] not after (ms, server
-- time; 0: at any time)   ARGV[5] 'wait', 'try' or 'attach' (only if the owner id has it)
-- ARGV[6] claim (ms)   ARGV[7] inbox   ARGV[8] '1' if countable   ARGV[9] ticket of an earlier answer
-- Returns { 1 granted, time, left, token }, { 0 held or not yours, time, left },
-- { 2 queued, time, left, ticket, position, waiters, known of this inbox (-1 at the first ask), 1 if
-- the holder is ours },
-- { -1 too late, time } or { -2 ended by a tombstone, time }; times in ms.
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
--#include "_tell.lua"
--#include "_queue.lua"
--#include "_confirm.lua"
--#include "_grant.lua"
--#include "_enqueue.lua"
--#include "_queued.lua"
if tonumber(ARGV[4]) > 0 and now > tonumber(ARGV[4]) then return { -1, now } end
local me = ARGV[1] .. '#' .. ARGV[2]
local value = redis.call('GET', KEYS[1])
local left = value and redis.call('PTTL', KEYS[1]) or -2
local life = left > tonumber(ARGV[3]) and left or ARGV[3]
local seen = not value and redis.call('EXISTS', KEYS[3]) == 0 and {} -- the usual case is short
  or redis.call('HMGET', KEYS[3], 't' .. me, 'd' .. me, 'n', 'p' .. ARGV[7], 'h')
if tonumber(seen[1] or '0') > now then return { -2, now } end
local yours = value and #value == #me and string.sub(value, 1, #ARGV[1] + 1) == ARGV[1] .. '#'
if yours and seen[2] then drop(me) end
if value == me then
  confirm(seen[5])
  redis.call('PEXPIRE', KEYS[1], life)
  return { 1, now, life, redis.call('GET', KEYS[4]) or give(me, life) }
end
if yours then return { 1, now, life, give(me, life) } end
if ARGV[5] == 'attach' then return { 0, now, left } end
if not value and not seen[3] then return { 1, now, life, give(me, life) } end
local wait = ARGV[5] == 'wait'
local ticket = wait and enqueue(me, seen[2], seen[3], seen[4])
if not value then
  local first, claim, other = nextWaiter(me, ARGV[7], seen[5])
  if not first or first == me then
    if wait then drop(me) end
    if seen[5] then redis.call('HDEL', KEYS[3], 'h') end
    return { 1, now, life, give(me, life) }
  end
  handOver(first, claim, other)
  value, left = first, tonumber(claim)
end
return wait and queued(me, ticket, left, value, not seen[2]) or { 0, now, left }
