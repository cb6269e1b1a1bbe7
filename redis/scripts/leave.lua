-- Gives the lock back, leaves the queue, or both. A free lock goes to the first waiter that lives.
-- KEYS[1] lock   KEYS[2] waiting   KEYS[3] their details   KEYS[4] last fencing token
-- ARGV[1] owner value   ARGV[2] for how long (ms) asks of this value are refused; 0 for none
-- ARGV[3] '1': the first waiter becomes the owner; '0': it is told to race for a free lock
-- Returns { 1 released, 0 gone or -1 another owner, 0 if an inbox could not be told }
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
--#include "_tell.lua"
--#include "_queue.lua"
--#include "_grant.lua"
local value = redis.call('GET', KEYS[1])
local mine = value == ARGV[1]
local state = mine and 1 or value and -1 or 0
local told = 1
if redis.call('EXISTS', KEYS[3]) == 0 and ARGV[2] == '0' then
  if mine then redis.call('DEL', KEYS[1]) end
  return { state, told }
end
drop(ARGV[1])
if mine or not value then
  if mine then redis.call('HDEL', KEYS[3], 'h') end
  local first = nextWaiter(nil, nil)
  if first and ARGV[3] == '1' then
    told = handOver(first)
  else
    if mine then redis.call('DEL', KEYS[1]) end
    local _, _, _, inbox = details(first or '')
    if inbox then told = tell(inbox, 'r', first) end
  end
end
if ARGV[2] ~= '0' then
  redis.call('HSET', KEYS[3], 't' .. ARGV[1], now + tonumber(ARGV[2]))
  redis.call('PEXPIRE', KEYS[3], 30000)
end
tidy()
return { state, told }
