-- Answers a waiter: its place in the queue.

--#include "constants.lua"
--#include "owner_value.lua"
--#include "queue.lua"
--#include "text.lua"

-- Stands for the number of waiters of the inbox if they were not counted.
local NOT_COUNTED = -1
-- Whether the holder uses this library, which notifies the next waiter at its release.
local HOLDER_IS_OURS = 1
local HOLDER_IS_FOREIGN = 0

-- Counts the waiters of an inbox that are in the queue. Reads all waiters in two calls, as a call
-- per waiter costs far more.
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

-- Makes the reply to a waiter. Repeated asks extend the life of the queue, and so does the first
-- ask in a new queue. A first ask is the last in line, unless the queue had a record of the
-- waiter.
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
