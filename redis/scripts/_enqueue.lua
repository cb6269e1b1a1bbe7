-- Forgets what the dead have left. Called when more is left than lives.
local function sweep()
  local all = redis.call('HGETALL', KEYS[3])
  for i = 1, #all, 2 do
    local kind, name = string.sub(all[i], 1, 1), string.sub(all[i], 2)
    if kind == 't' and tonumber(all[i + 1]) <= now then
      redis.call('HDEL', KEYS[3], all[i])
    elseif kind == 'd' and not redis.call('ZSCORE', KEYS[2], name) then
      local _, _, _, inbox = details(name)
      local lease = tonumber(redis.call('HGET', KEYS[3], 'i' .. inbox) or '0')
      if lease <= now then drop(name) end
    end
  end
end
-- Puts the caller into the queue, keeps it there, or moves it forward to the ticket that it brings.
-- Renews the lease of its inbox, for all who wait there.
local function enqueue(me)
  local inbox, brought = ARGV[7], tonumber(ARGV[9])
  redis.call('HSET', KEYS[3], 'i' .. inbox, now + 6000)
  if ARGV[8] == '1' and listens(inbox) then
    redis.call('HSET', KEYS[3], 'p' .. inbox, '1')
  else
    redis.call('HDEL', KEYS[3], 'p' .. inbox)
  end
  local ticket, since, _, before = details(me)
  if before and before ~= inbox then drop(me) end
  ticket = tonumber(ticket) or (brought > 0 and brought) or redis.call('HINCRBY', KEYS[3], 'n', 1)
  if brought > 0 then ticket = math.min(ticket, brought) end
  -- A queue that was lost begins anew behind the tickets that are still about.
  if brought > tonumber(redis.call('HGET', KEYS[3], 'n') or '0') then
    redis.call('HSET', KEYS[3], 'n', brought)
  end
  local entry = { ticket, since or string.format('%.0f', now), ARGV[6], inbox }
  redis.call('HSET', KEYS[3], 'd' .. me, table.concat(entry, ' '))
  if redis.call('ZADD', KEYS[2], ticket, me) == 1 then
    redis.call('HINCRBY', KEYS[3], 'c' .. inbox, 1)
  end
  if redis.call('HLEN', KEYS[3]) > 4 * redis.call('ZCARD', KEYS[2]) + 64 then sweep() end
  redis.call('PEXPIRE', KEYS[2], 30000)
  redis.call('PEXPIRE', KEYS[3], 30000)
end
local function queued(me, left)
  local ticket, _, _, inbox = details(me)
  local ours = string.match(redis.call('GET', KEYS[1]), '#%x+$')
  return {
    2, now, left, tonumber(ticket), redis.call('ZRANK', KEYS[2], me) + 1,
    redis.call('ZCARD', KEYS[2]), tonumber(redis.call('HGET', KEYS[3], 'c' .. inbox)), ours and 1 or 0,
  }
end
