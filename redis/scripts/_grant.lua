-- Makes `value` the owner for `life` ms and issues the next fencing token, which outlives the lock by a
-- minute. Memory pressure can refuse the first write of a script only, before anything happened.
local function give(value, life)
  local last = tonumber(redis.call('GET', KEYS[4]) or '0') or 0
  local token = string.format('%.0f', math.max(last + 1, time[1] * 1000000 + time[2]))
  redis.call('SET', KEYS[4], token, 'PX', life + 60000)
  redis.call('SET', KEYS[1], value, 'PX', life)
  return token
end
-- The first waiter that lives, for a lock that is free, and its details. Passes over those whose inbox
-- has no lease or no listener. An inbox that let a claim run out unconfirmed is parked whole.
local function nextWaiter(me, mine, lapsed)
  local claimant = lapsed and string.match(lapsed, '^u(.-) ')
  if claimant and claimant ~= mine then redis.call('HDEL', KEYS[3], 'i' .. claimant) end
  while true do
    local value = redis.call('ZRANGE', KEYS[2], 0, 0)[1]
    if not value or value == me then return value end
    local _, _, claim, inbox = parse(redis.call('HGET', KEYS[3], 'd' .. value))
    local found = redis.call('HMGET', KEYS[3], 'i' .. (inbox or ''), 'p' .. (inbox or ''))
    if not inbox then
      redis.call('ZREM', KEYS[2], value)
    elseif (tonumber(found[1]) or 0) <= now then
      drop(value)
    elseif found[2] and listens(inbox) == false then
      redis.call('ZREM', KEYS[2], value)
    else
      return value, claim, inbox
    end
  end
end
-- Hands the lock over to a waiter and tells its inbox alone; 0 if that was refused.
local function handOver(value, claim, inbox)
  drop(value)
  local token = give(value, claim)
  redis.call('HSET', KEYS[3], 'h', 'u' .. inbox .. ' ' .. value)
  return tell(inbox, { KEYS[1], 'g', value, token, now, claim })
end
