-- What a waiter asks for, as its record says (see waiter.lua).

local NO_WORDS = ''

-- Returns the claim (ms), and the limit of a waiter that shares the lock, NO_LIMIT for none; nil
-- for an exclusive one. Apart from read_waiter(): a handoff needs nothing else of the record.
local function read_request(record)
  local claim_ms, words = string.match(record, '^%d+ %d+ (%d+) [^ ]+(.*)$')
  if words == NO_WORDS then return tonumber(claim_ms), nil end
  return tonumber(claim_ms), tonumber(string.match(words .. ' ', '^ s(%d+) '))
end
