-- Forgets what the dead have left. Called now and then, does nothing unless more is left than lives.
local function sweep()
  if redis.call('HLEN', KEYS[3]) <= 4 * redis.call('ZCARD', KEYS[2]) + 64 then return end
  local all = redis.call('HGETALL', KEYS[3])
  for i = 1, #all, 2 do
    local kind, name = string.sub(all[i], 1, 1), string.sub(all[i], 2)
    if kind == 't' and tonumber(all[i + 1]) <= now then
      redis.call('HDEL', KEYS[3], all[i])
    elseif kind == 'd' and not redis.call('ZSCORE', KEYS[2], name) then
      local _, _, _, inbox = parse(all[i + 1])
      local lease = tonumber(redis.call('HGET', KEYS[3], 'i' .. inbox) or '0')
      if lease <= now then drop(name) end
    elseif kind == 'i' and tonumber(all[i + 1]) <= now then
      redis.call('HDEL', KEYS[3], all[i], 'p' .. name)
    end
  end
end
-- Puts the caller into the queue, keeps it there, or moves it forward to the ticket that it brings.
-- Renews the lease of its inbox, for all who wait there. Returns its ticket.
local function enqueue(me, entry, last, proved)
  local inbox, brought = ARGV[7], tonumber(ARGV[9])
  local ticket, since = parse(entry)
  last, ticket = tonumber(last) or 0, tonumber(ticket) or (brought > 0 and brought)
  if not ticket then ticket, last = last + 1, last + 1 end
  if brought > 0 then ticket = math.min(ticket, brought) end
  -- A queue that was lost begins anew behind the tickets that are still about.
  last = math.max(last, brought)
  entry = ticket .. ' ' .. (since or now) .. ' ' .. ARGV[6] .. ' ' .. inbox
  redis.call('HSET', KEYS[3], 'n', last, 'd' .. me, entry, 'i' .. inbox, now + 6000)
  -- One that asks again may have lost its subscription for good: it must not be passed over for ever.
  local proves = ARGV[8] == '1' and (proved and brought == 0 or listens(inbox))
  if proves and not proved then redis.call('HSET', KEYS[3], 'p' .. inbox, '1') end
  if proved and not proves then redis.call('HDEL', KEYS[3], 'p' .. inbox) end
  redis.call('ZADD', KEYS[2], ticket, me)
  if ticket % 64 == 0 then sweep() end
  return ticket
end
