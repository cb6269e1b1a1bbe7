-- What a waiter learns about its place in the queue.

--#include "constants.lua"
--#include "owner_value.lua"
--#include "queue.lua"
--#include "text.lua"

-- How many waiters of the inbox are in the queue, if that was not counted.
local NOT_COUNTED = -1
-- Whether the holder uses this library, and so will hand over.
local HOLDER_IS_OURS = 1
local HOLDER_IS_FOREIGN = 0

-- How many waiters of an inbox are in the queue. Two calls read all: one per waiter costs far more.
local function count_waiters(keys, inbox)
  local is_queued = {}
  for _, value in ipairs(redis.call('ZRANGE', keys.queue, FIRST, LAST)) do
    is_queued[value] = true
  end
  local waiter_count = 0
  local fields = redis.call('HGETALL', keys.waiters)
  for index = 1, #fields, FIELD_AND_VALUE do
    local value = strip_prefix(fields[index], WAITER_PREFIX)
    if value and is_queued[value] then
      local _, _, _, waiter_inbox = read_waiter(fields[index + 1])
      if waiter_inbox == inbox then waiter_count = waiter_count + 1 end
    end
  end
  return waiter_count
end

-- The reply to a waiter. A repeated ask keeps the queue alive for all; a first ask needs to do that
-- only in a new queue, and is the last in line unless the queue knew the waiter before.
local function queued_reply(keys, now_ms, waiter, ticket, holder_value, remaining_ms)
  local queue_length = redis.call('ZCARD', keys.queue)
  local position = queue_length
  if waiter.record or not waiter.is_first_ask then
    position = redis.call('ZRANK', keys.queue, waiter.value) + 1
  end
  if queue_length == 1 or not waiter.is_first_ask then keep_queue(keys) end
  local known_count = NOT_COUNTED
  if not waiter.is_first_ask then known_count = count_waiters(keys, waiter.inbox) end
  local origin = HOLDER_IS_FOREIGN
  if is_owner_value(holder_value) then origin = HOLDER_IS_OURS end
  return { QUEUED, now_ms, remaining_ms, ticket, position, queue_length, known_count, origin }
end
