-- Owner values: "ownerId#nonce", as the lock key holds them. Each call has its own nonce.

-- Hex digits of the nonce.
local NONCE_DIGITS = 16

-- Whether two values have the same owner id. Their nonces may differ.
local function has_same_owner_id(value, other_value)
  if #value ~= #other_value then return false end
  local before_nonce = -NONCE_DIGITS - 1
  return string.sub(value, 1, before_nonce) == string.sub(other_value, 1, before_nonce)
end

-- Whether this library wrote the value.
local function is_owner_value(value)
  return string.find(value, '^#%x+$', -NONCE_DIGITS - 1) ~= nil
end
