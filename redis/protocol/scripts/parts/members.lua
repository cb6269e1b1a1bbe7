-- The members of one waiter in the queue, and the one of its inbox.

--#include "constants.lua"
--#include "queue.lua"

-- The first waiter of an inbox that is not parked has one member more than the others.
local MEMBERS_OF_FIRST_WAITER = 3
local FIRST_TWO = 2

-- Inserts a waiter, and its inbox unless it is there. Does nothing to members that exist. Returns
-- the ticket that the inbox had before, or the waiter's own.
local function insert_members(keys, ticket, value, inbox)
  local first_ticket = first_of(keys, family_of_inbox(inbox))
  if not first_ticket then first_ticket = ticket end
  redis.call(
    'ZADD', keys.queue,
    NO_SCORE, make_member(BY_TICKET, ticket, value),
    NO_SCORE, make_member(family_of_inbox(inbox), ticket, value),
    NO_SCORE, make_member(NEXT, math.min(ticket, first_ticket), inbox)
  )
  if ticket < first_ticket then
    redis.call('ZREM', keys.queue, make_member(NEXT, first_ticket, inbox))
  end
  return first_ticket
end

-- Removes the members of a waiter and its record. An inbox without waiters is forgotten.
-- Begins with a deletion: Redis never refuses one for lack of memory, and then nothing that the
-- script writes later.
local function remove_members(keys, ticket, value, inbox)
  local family = family_of_inbox(inbox)
  -- Read before the removal may delete the whole queue: while its slot moves to another node of a
  -- cluster, a key that is gone must not be read.
  local _, second_member = unpack(members_of(keys, family, FIRST_TWO))
  local removed_count = redis.call(
    'ZREM', keys.queue, make_member(BY_TICKET, ticket, value),
    make_member(family, ticket, value),
    make_member(NEXT, ticket, inbox), make_member(UNHEARD, ticket, inbox)
  )
  local fields = { WAITER_PREFIX .. value }
  if removed_count == MEMBERS_OF_FIRST_WAITER then
    if second_member then
      local next_ticket = read_member(family, second_member)
      redis.call('ZADD', keys.queue, NO_SCORE, make_member(NEXT, next_ticket, inbox))
    else
      table.insert(fields, INBOX_PREFIX .. inbox)
      table.insert(fields, LISTENING_PREFIX .. inbox)
    end
  end
  redis.call('HDEL', keys.waiters, unpack(fields))
end
