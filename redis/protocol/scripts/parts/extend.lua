-- A request that is executed again.

--#include "grant.lua"

-- Extends a lock that this very request was granted before, and returns its fencing token.
local function extend(keys, owner_value, life_ms, now_us)
  redis.call('PEXPIRE', keys.lock, life_ms)
  local token = redis.call('GET', keys.token)
  if token then return token end
  return grant(keys, owner_value, life_ms, now_us)
end
