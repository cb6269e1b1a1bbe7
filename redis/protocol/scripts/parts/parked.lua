-- Parked inboxes. A process that seems to be dead or frozen is skipped with all of its waiters.
-- They keep their places: the next ask of the process returns them all.

--#include "constants.lua"
--#include "holder.lua"
--#include "queue.lua"

local PARKED = 'parked'
-- How long the places of a parked inbox are kept.
local PARKED_MS = 60000

-- Parks an inbox, and ends its lease. Also an inbox without waiters: a waiter whose claim lapsed
-- has lost its record, and until it is back the last ticket must be kept.
-- Begins with a deletion, as in waiter.lua.
local function park_inbox(keys, now_ms, inbox)
  local until_ms = now_ms + PARKED_MS
  redis.call('HDEL', keys.waiters, INBOX_PREFIX .. inbox, LISTENING_PREFIX .. inbox)
  local ticket = first_of(keys, family_of_inbox(inbox))
  if ticket then
    local next_member = make_member(NEXT, ticket, inbox)
    redis.call('ZREM', keys.queue, next_member, make_member(UNHEARD, ticket, inbox))
  end
  redis.call('ZADD', keys.queue, NO_SCORE, make_member(PARKED, until_ms, inbox))
  redis.call('HSET', keys.waiters, PARKED_PREFIX .. inbox, until_ms)
  keep_queue(keys)
end

-- Forgets that an inbox was parked. Its first waiter needs a 'next' member again.
local function forget_parked(keys, until_ms, inbox)
  redis.call('ZREM', keys.queue, make_member(PARKED, until_ms, inbox))
  redis.call('HDEL', keys.waiters, PARKED_PREFIX .. inbox)
end

-- If the last holder let its claim expire unconfirmed, its process is dead or frozen: parks its
-- inbox, once. The asker's own process is alive.
local function park_lapsed_inbox(keys, now_ms, holder_record, asker_inbox)
  local state, inbox = read_holder(holder_record)
  if state ~= UNCONFIRMED or inbox == asker_inbox then return end
  redis.call('HDEL', keys.waiters, HOLDER_FIELD)
  park_inbox(keys, now_ms, inbox)
end
