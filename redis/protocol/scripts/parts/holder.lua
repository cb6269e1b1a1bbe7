-- The record of a holder that was granted the lock from the queue: "state inbox ownerValue". Such a
-- grant is a short claim until the holder confirms it by an ask or a renewal.

--#include "constants.lua"

local UNCONFIRMED = 'unconfirmed'
local CONFIRMED = 'confirmed'

-- Returns state, inbox and owner value; nil if there is no record.
local function read_holder(record)
  if not record then return nil end
  return string.match(record, '^(%l+) (%S+) (.*)$')
end

-- Returns the inbox of the holder if it was granted the lock from the queue.
local function inbox_of_holder(record, lock_value)
  local _, inbox, owner_value = read_holder(record)
  if owner_value ~= lock_value then return nil end
  return inbox
end

local function write_holder(keys, state, inbox, owner_value)
  local record = state .. ' ' .. inbox .. ' ' .. owner_value
  redis.call('HSET', keys.waiters, HOLDER_FIELD, record)
end

-- Marks the claim as confirmed: the holder has shown that it is alive. The deletion comes first so
-- that full memory cannot refuse the confirmation (see waiter.lua).
local function confirm_holder(keys, record)
  local state, inbox, owner_value = read_holder(record)
  if state ~= UNCONFIRMED then return end
  redis.call('HDEL', keys.waiters, HOLDER_FIELD)
  write_holder(keys, CONFIRMED, inbox, owner_value)
end
