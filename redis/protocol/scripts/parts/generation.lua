-- The marker of a shared lock: the lock key then holds one owner value that stands for all holders,
-- with their generation as its nonce. No caller has this owner id.

local SHARED_OWNER = 'holdfast:shared#'
-- Written out: to join the strings would cost each call more than the match does.
local MARKER_PATTERN = '^holdfast:shared#(%x+)$'

-- That owner id, '#' and 16 digits. An ask checks the length first: then an exclusive one needs
-- neither the function below nor the match.
local MARKER_LENGTH = 32

-- Returns the generation of a lock that is shared; nil if it is not.
local function generation_of(lock_value)
  if not lock_value then return nil end
  return string.match(lock_value, MARKER_PATTERN)
end
