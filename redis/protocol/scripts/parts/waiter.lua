-- The record of a waiter in the hash, and the removal of a waiter.

--#include "constants.lua"
--#include "members.lua"

-- Returns ticket, start of the wait (ms, server time), claim (ms) and inbox; nil if there is no
-- record. Further words are ignored: a later version may add them.
local function read_waiter(record)
  if not record then return nil end
  local ticket, since_ms, claim_ms, inbox = string.match(record, '^(%d+) (%d+) (%d+) ([^ ]+)')
  return tonumber(ticket), since_ms, tonumber(claim_ms), inbox
end

-- Takes a waiter out of the queue for good.
local function remove_waiter(keys, value, record)
  local ticket, _, _, inbox = read_waiter(record)
  remove_members(keys, ticket, value, inbox)
end
