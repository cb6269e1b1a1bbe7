-- How many waiters of this inbox are in the queue, for one that asks again.
local function known()
  local count, all = 0, redis.call('HGETALL', KEYS[3])
  for i = 1, #all, 2 do
    if string.sub(all[i], 1, 1) == 'd' then
      local _, _, _, inbox = parse(all[i + 1])
      if inbox == ARGV[7] and redis.call('ZSCORE', KEYS[2], string.sub(all[i], 2)) then
        count = count + 1
      end
    end
  end
  return count
end
local function queued(me, ticket, left, holder, isNew)
  local again, waiters = ARGV[9] ~= '0', redis.call('ZCARD', KEYS[2])
  -- One that is new, and brings no ticket, is the last.
  local position = isNew and not again and waiters or redis.call('ZRANK', KEYS[2], me) + 1
  -- Those who ask again keep the queue alive for all; a new one need only see to a new queue.
  if again or waiters == 1 then keep() end
  local ours = string.find(holder, '^#%x+$', -17) and 1 or 0
  return { 2, now, left, ticket, position, waiters, again and known() or -1, ours }
end
