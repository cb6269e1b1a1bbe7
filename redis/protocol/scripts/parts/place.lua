-- Answers a waiter: its place in the queue.

--#include "constants.lua"
--#include "owner_value.lua"
--#include "queue.lua"

-- Whether the holder uses this library, which notifies the next waiter at its release.
local HOLDER_IS_OURS = 1
local HOLDER_IS_FOREIGN = 0
local FIRST_POSITION = 1

-- Returns the position of a waiter, and the length of the queue. Both count waiters of parked
-- inboxes, but the first waiter that is not parked has position 1. A first ask is the last in line,
-- unless the queue had a record of the waiter.
local function read_place(keys, waiter, ticket)
  local queue_length = count_members(keys, BY_TICKET)
  local position = queue_length
  if waiter.record or not waiter.is_first_ask then
    local from, to = '[' .. BY_TICKET .. ' ', '[' .. make_member(BY_TICKET, ticket, waiter.value)
    position = redis.call('ZLEXCOUNT', keys.queue, from, to)
  end
  if position > FIRST_POSITION and first_of(keys, NEXT) == ticket then position = FIRST_POSITION end
  return position, queue_length
end

-- Makes the reply to a waiter. Repeated asks extend the life of the queue, and so does the first
-- ask in a new one, or in one that had lost its hash. If the holder came from the queue and is of
-- the same process, the reply names it: its message may be lost.
local function queued_reply(keys, now_ms, waiter, ticket, holder)
  local position, queue_length = read_place(keys, waiter, ticket)
  local is_new = queue_length == 1 or not waiter.last_ticket
  if is_new or not waiter.is_first_ask then keep_queue(keys) end
  local inbox_waiters = count_members(keys, family_of_inbox(waiter.inbox))
  local origin = HOLDER_IS_FOREIGN
  if is_owner_value(holder.value) then origin = HOLDER_IS_OURS end
  local own_holder = nil
  if holder.inbox == waiter.inbox then own_holder = holder.value end
  return {
    QUEUED, now_ms, holder.remaining_ms, ticket, position, queue_length, inbox_waiters, origin,
    own_holder,
  }
end
