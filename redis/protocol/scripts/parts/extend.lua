-- Extends a lock for a request that finds its own owner value.

--#include "grant.lua"

-- Extends a lock that this owner value holds, and returns the fencing token of its grant. If that
-- token is lost, grants the lock again with a new one.
local function extend(keys, owner_value, life_ms, now_us)
  redis.call('PEXPIRE', keys.lock, life_ms)
  local token = redis.call('GET', keys.token)
  if token then return tonumber(token) end
  return grant(keys, owner_value, life_ms, now_us)
end
