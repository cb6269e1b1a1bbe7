-- Deletes the fields that dead processes have left in the waiters hash.

--#include "constants.lua"
--#include "queue.lua"
--#include "text.lua"
--#include "time.lua"

-- The sweep reads the whole hash, so it waits until there are more fields than this.
local MAX_FIELDS_PER_WAITER = 4
local MAX_OTHER_FIELDS = 64

local function sweep_field(keys, now_ms, field, value)
  local waiter_value = strip_prefix(field, WAITER_PREFIX)
  local inbox = strip_prefix(field, INBOX_PREFIX)
  if strip_prefix(field, TOMBSTONE_PREFIX) and not is_in_future(value, now_ms) then
    redis.call('HDEL', keys.waiters, field)
  elseif inbox and not is_in_future(value, now_ms) then
    redis.call('HDEL', keys.waiters, field, LISTENING_PREFIX .. inbox)
  elseif waiter_value and not redis.call('ZSCORE', keys.queue, waiter_value) then
    local _, _, _, waiter_inbox = read_waiter(value)
    local lease_end_ms = redis.call('HGET', keys.waiters, INBOX_PREFIX .. waiter_inbox)
    if not is_in_future(lease_end_ms, now_ms) then remove_waiter(keys, waiter_value) end
  end
end

-- Deletes expired tombstones, expired inboxes, and parked waiters of inboxes without a lease. Does
-- nothing until the hash holds far more than the queue needs.
local function sweep(keys, now_ms)
  local queue_length = redis.call('ZCARD', keys.queue)
  local allowed_fields = MAX_FIELDS_PER_WAITER * queue_length + MAX_OTHER_FIELDS
  if redis.call('HLEN', keys.waiters) <= allowed_fields then return end
  local fields = redis.call('HGETALL', keys.waiters)
  for index = 1, #fields, FIELD_AND_VALUE do
    sweep_field(keys, now_ms, fields[index], fields[index + 1])
  end
end
