-- Takes the lock if it is free and nobody waits; else queues, or stays in the queue.
-- KEYS[1] lock   KEYS[2] waiting   KEYS[3] their details   KEYS[4] last fencing token
-- ARGV[1] owner id   ARGV[2] nonce of the call   ARGV[3] ttl (ms)   ARGV[4] not after (ms, server
-- time; 0: at any time)   ARGV[5] 'wait', 'try' or 'attach' (only if the owner id has it)
-- ARGV[6] claim (ms)   ARGV[7] inbox   ARGV[8] '1' if countable   ARGV[9] ticket of an earlier answer
-- Returns { 1 granted, time, left, token }, { 0 held or not yours, time, left },
-- { 2 queued, time, left, ticket, position, waiters, known of this inbox, 1 if the holder is ours },
-- { -1 too late, time } or { -2 ended by a tombstone, time }; times in ms.
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
--#include "_tell.lua"
--#include "_queue.lua"
--#include "_confirm.lua"
--#include "_grant.lua"
--#include "_enqueue.lua"
if tonumber(ARGV[4]) > 0 and now > tonumber(ARGV[4]) then return { -1, now } end
local me = ARGV[1] .. '#' .. ARGV[2]
local value = redis.call('GET', KEYS[1])
local left = value and redis.call('PTTL', KEYS[1]) or -2
local life = math.max(tonumber(ARGV[3]), left)
local busy = redis.call('EXISTS', KEYS[3]) == 1
if busy and tonumber(redis.call('HGET', KEYS[3], 't' .. me) or '0') > now then return { -2, now } end
if value == me then
  if busy then
    drop(me)
    confirm()
  end
  redis.call('PEXPIRE', KEYS[1], life)
  return { 1, now, life, redis.call('GET', KEYS[4]) or give(me, life) }
end
local yours = value and #value == #me and string.sub(value, 1, #ARGV[1] + 1) == ARGV[1] .. '#'
if yours then return { 1, now, life, give(me, life) } end
if ARGV[5] == 'wait' and (busy or value) then enqueue(me) end
if value then return ARGV[5] == 'wait' and queued(me, left) or { 0, now, left } end
if ARGV[5] == 'attach' then return { 0, now, left } end
local first = busy and nextWaiter(me, ARGV[7])
if not first or first == me then
  if busy then drop(me) end
  return { 1, now, life, give(me, life) }
end
handOver(first)
left = redis.call('PTTL', KEYS[1])
return ARGV[5] == 'wait' and queued(me, left) or { 0, now, left }
