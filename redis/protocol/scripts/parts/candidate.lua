-- One inbox in the search for the next waiter.

--#include "constants.lua"
--#include "inbox.lua"
--#include "listening.lua"
--#include "members.lua"
--#include "queue.lua"
--#include "time.lua"
--#include "waiter.lua"

-- Returns whether the process of an inbox is alive, as far as its lease tells, and whether the
-- inbox can be notified.
local function look_at_inbox(keys, now_ms, inbox)
  local lease_end_ms, listening =
    unpack(redis.call('HMGET', keys.waiters, INBOX_PREFIX .. inbox, LISTENING_PREFIX .. inbox))
  if not is_in_future(lease_end_ms, now_ms) then return false, false end
  if not listening then return true, true end
  return true, has_subscriber(inbox) ~= false
end

-- Returns the first waiter of an inbox, which stays in the queue. Drops it and returns nil if its
-- record was lost with the hash: its next ask puts it back.
local function read_first_waiter(keys, inbox)
  local ticket, value = first_of(keys, family_of_inbox(inbox))
  local record = redis.call('HGET', keys.waiters, WAITER_PREFIX .. value)
  if not record then
    remove_members(keys, ticket, value, inbox)
    return nil
  end
  local _, _, claim_ms = read_waiter(record)
  return { value = value, record = record, ticket = ticket, inbox = inbox, claim_ms = claim_ms }
end

-- Sets an inbox aside that has lost its subscriber, until its process asks again.
-- Begins with a deletion, as in waiter.lua.
local function set_aside(keys, ticket, inbox)
  redis.call('ZREM', keys.queue, make_member(NEXT, ticket, inbox))
  redis.call('ZADD', keys.queue, NO_SCORE, make_member(UNHEARD, ticket, inbox))
  redis.call('HSET', keys.waiters, LISTENING_PREFIX .. inbox, LISTENS_NO_MORE)
end
