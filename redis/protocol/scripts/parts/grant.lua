-- Grants the lock to an owner.

-- How long the last fencing token outlives the lock.
local TOKEN_OUTLIVES_LOCK_MS = 60000

-- Sets the lock key, and returns the fencing token of this grant: max(last + 1, server µs). It is a
-- number, which is exact in commands and replies.
-- The token is written first: full memory refuses at most the first write of a script, so the lock
-- key is never set without a token.
local function grant(keys, owner_value, life_ms, now_us)
  local token = now_us
  local token_life_ms = life_ms + TOKEN_OUTLIVES_LOCK_MS
  local last_token = tonumber(redis.call('SET', keys.token, token, 'PX', token_life_ms, 'GET'))
  if last_token and last_token >= now_us then
    token = last_token + 1
    redis.call('SET', keys.token, token, 'PX', token_life_ms)
  end
  redis.call('SET', keys.lock, owner_value, 'PX', life_ms)
  return token
end
