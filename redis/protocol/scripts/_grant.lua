-- Makes `value` the owner for `life` ms and issues the next fencing token, which outlives the lock by a
-- minute. Memory pressure can refuse the first write of a script only, before anything happened.
local function give(value, life)
  local micros = time[1] * 1000000 + time[2]
  local token, outlives = string.format('%.0f', micros), life + 60000
  local last = tonumber(redis.call('SET', KEYS[4], token, 'PX', outlives, 'GET') or '0') or 0
  if last >= micros then
    token = string.format('%.0f', last + 1)
    redis.call('SET', KEYS[4], token, 'PX', outlives)
  end
  redis.call('SET', KEYS[1], value, 'PX', life)
  return token
end
-- Takes the first waiter that lives out of the queue, for a lock that is free: its value, details and
-- ticket. Passes over those whose inbox has no lease or no listener. An inbox that let a claim run out
-- unconfirmed is parked whole. If nobody listens at all, subscribers were cut off together rather than
-- dead: all keep their places, and the first one gets a short claim to come back in.
local function nextWaiter(me, mine, lapsed)
  local claimant = lapsed and string.match(lapsed, '^u(.-) ')
  if claimant and claimant ~= mine then
    redis.call('HDEL', KEYS[3], 'i' .. claimant)
    redis.call('HSET', KEYS[3], 'l', now + 6000)
  end
  local deaf = {}
  while true do
    local head = redis.call('ZPOPMIN', KEYS[2])
    local value = head[1]
    if not value and deaf[1] then
      for i = 2, #deaf do redis.call('ZADD', KEYS[2], deaf[i][4], deaf[i][1]) end
      keep()
      return unpack(deaf[1])
    end
    if not value or value == me then return value end
    local _, _, claim, inbox = parse(redis.call('HGET', KEYS[3], 'd' .. value))
    local found = redis.call('HMGET', KEYS[3], 'i' .. (inbox or ''), 'p' .. (inbox or ''))
    local lease = tonumber(found[1]) or 0
    if inbox and lease <= now then
      redis.call('HDEL', KEYS[3], 'd' .. value)
    elseif inbox and not (found[2] and listens(inbox) == false) then
      return value, claim, inbox, head[2]
    elseif inbox then
      deaf[#deaf + 1] = { value, math.min(claim, 1000), inbox, head[2] }
    end
  end
end
-- Hands the lock over to a waiter and tells its inbox alone; 0 if that was refused.
local function handOver(value, claim, inbox)
  redis.call('HDEL', KEYS[3], 'd' .. value)
  local token = give(value, claim)
  redis.call('HSET', KEYS[3], 'h', 'u' .. inbox .. ' ' .. value)
  return tell(inbox, 'g\n' .. value .. '\n' .. token .. '\n' .. now .. '\n' .. claim)
end
