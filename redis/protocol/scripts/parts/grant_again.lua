-- Grants the lock to an owner id that holds it already: by an earlier call (with another nonce), by
-- a copy of this ask, or by a handoff.

--#include "constants.lua"
--#include "extend.lua"
--#include "grant.lua"
--#include "holder.lua"

-- Returns the fencing token. An earlier call of the owner id loses its lease.
local function grant_again(keys, lock_value, holder_record, owner_value, life_ms, now_us)
  if lock_value == owner_value then
    confirm_holder(keys, holder_record)
    return extend(keys, owner_value, life_ms, now_us)
  end
  local token = grant(keys, owner_value, life_ms, now_us)
  if holder_record then redis.call('HDEL', keys.waiters, HOLDER_FIELD) end
  return token
end
