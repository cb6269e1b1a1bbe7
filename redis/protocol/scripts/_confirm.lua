-- The holder that came from the queue has shown that it is there.
local function confirm(holder)
  if holder and string.sub(holder, 1, 1) == 'u' then
    redis.call('HSET', KEYS[3], 'h', 'c' .. string.sub(holder, 2))
  end
end
