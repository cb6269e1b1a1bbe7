-- One waiter: its record in the hash, and its removal from the queue.

--#include "constants.lua"
--#include "queue.lua"

-- The first waiter of an inbox that is not parked has one member more than the others.
local MEMBERS_OF_FIRST_WAITER = 3

-- Returns ticket, start of the wait (ms, server time), claim (ms) and inbox; nil if there is no
-- record. Further words are ignored: a later version may add them.
local function read_waiter(record)
  if not record then return nil end
  local ticket, since_ms, claim_ms, inbox = string.match(record, '^(%d+) (%d+) (%d+) ([^ ]+)')
  return tonumber(ticket), since_ms, tonumber(claim_ms), inbox
end

local function make_record(ticket, since_ms, claim_ms, inbox)
  return ticket .. ' ' .. since_ms .. ' ' .. claim_ms .. ' ' .. inbox
end

-- Takes a waiter out of the queue. An inbox without waiters is forgotten.
-- Begins with a deletion, which Redis never refuses for lack of memory. It refuses nothing that a
-- script writes later.
local function remove_waiter(keys, value, record)
  local ticket, _, _, inbox = read_waiter(record)
  local removed_count = redis.call(
    'ZREM', keys.queue, by_ticket_member(ticket, value), by_inbox_member(inbox, ticket, value),
    next_member(ticket, inbox), unheard_member(ticket, inbox)
  )
  local waiter_field = WAITER_PREFIX .. value
  if removed_count < MEMBERS_OF_FIRST_WAITER then
    redis.call('HDEL', keys.waiters, waiter_field)
    return
  end
  local next_ticket = first_waiter(keys, inbox)
  if next_ticket then
    redis.call('HDEL', keys.waiters, waiter_field)
    redis.call('ZADD', keys.queue, NO_SCORE, next_member(next_ticket, inbox))
  else
    local inbox_field, listening_field = INBOX_PREFIX .. inbox, LISTENING_PREFIX .. inbox
    redis.call('HDEL', keys.waiters, waiter_field, inbox_field, listening_field)
  end
end
