-- Makes ARGV[1]#ARGV[2] the owner for `life` ms and issues the next fencing token, which outlives the
-- lock by a minute. Memory pressure can refuse the first write only, before anything happened.
local function grant(life)
  local last = tonumber(redis.call('GET', KEYS[2]) or '0') or 0
  local token = math.max(last + 1, time[1] * 1000000 + time[2])
  local keep = math.max(life + 60000, redis.call('PTTL', KEYS[2]))
  redis.call('SET', KEYS[2], string.format('%.0f', token), 'PX', keep)
  redis.call('SET', KEYS[1], ARGV[1] .. '#' .. ARGV[2], 'PX', life)
  return { 1, now, life, token }
end
-- The call has it already (its client sent it twice): prolongs it, never shortens it.
local function again(life)
  local token = redis.call('GET', KEYS[2])
  if not token then return grant(life) end
  redis.call('PEXPIRE', KEYS[1], life)
  return { 1, now, life, tonumber(token) }
end
