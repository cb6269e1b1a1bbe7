-- Gives the lock back, leaves the queue, or both. A free lock goes to the first waiter that lives.
-- KEYS[1] lock   KEYS[2] waiting   KEYS[3] their details   KEYS[4] last fencing token
-- ARGV[1] owner value   ARGV[2] for how long (ms) asks of this value are refused; 0 for none
-- ARGV[3] '1': the first waiter becomes the owner; '0': it is told to race for a free lock
-- ARGV[4] '1': leaves the queue only; a lock of ours stays as it is
-- Returns { 1 released, 0 gone or -1 another owner, 0 if an inbox could not be told }
local time, now
--#include "_tell.lua"
--#include "_queue.lua"
--#include "_grant.lua"
local value = redis.call('GET', KEYS[1])
local mine = value == ARGV[1] and ARGV[4] ~= '1'
local state = mine and 1 or value and -1 or 0
local told = 1
local seen = redis.call('HMGET', KEYS[3], 'h', 'd' .. ARGV[1], 'n')
if ARGV[2] == '0' and not seen[3] then -- there is no queue
  if mine then redis.call('DEL', KEYS[1]) end
  return { state, told }
end
time = redis.call('TIME')
now = time[1] * 1000 + math.floor(time[2] / 1000)
if seen[2] then drop(ARGV[1]) end
local first, claim, other, ticket
if mine or not value then
  first, claim, other, ticket = nextWaiter(nil, nil, not mine and seen[1])
  if first and ARGV[3] == '1' then
    told = handOver(first, claim, other)
  else
    if mine then redis.call('DEL', KEYS[1]) end
    if seen[1] then redis.call('HDEL', KEYS[3], 'h') end
    if first then
      redis.call('ZADD', KEYS[2], ticket, first)
      keep()
      told = tell(other, 'r\n' .. first)
    end
  end
end
if ARGV[2] ~= '0' then
  redis.call('HSET', KEYS[3], 't' .. ARGV[1], now + tonumber(ARGV[2]))
  redis.call('PEXPIRE', KEYS[3], 30000)
end
if not first then tidy() end
return { state, told }
