-- Deletes what dead processes have left in the queue, a bounded part in each call.

--#include "constants.lua"
--#include "parked.lua"
--#include "queue.lua"
--#include "time.lua"
--#include "tombstone.lua"

-- Deletes some waiters of an inbox. Returns whether there may be more.
local function sweep_waiters(keys, inbox)
  local prefix = BY_INBOX .. inbox .. ' '
  local members = members_with(keys, prefix, MAX_LOOKED_AT)
  for _, member in ipairs(members) do
    local ticket, value = string.match(member, '^(%d+) (.*)$', #prefix + 1)
    redis.call('ZREM', keys.queue, member, by_ticket_member(ticket, value))
    redis.call('HDEL', keys.waiters, WAITER_PREFIX .. value)
  end
  return #members == MAX_LOOKED_AT
end

-- Deletes the inbox that has been parked longest, if its time is over. If the field does not agree,
-- the hash was lost and the inbox is in use again: then only the member goes.
local function sweep_parked(keys, now_ms)
  local member = unpack(members_with(keys, PARKED, 1))
  if not member then return end
  local until_ms, inbox = string.match(member, '^(%d+) (.*)$', #PARKED + 1)
  if is_in_future(until_ms, now_ms) then return end
  local stored_ms = tonumber(redis.call('HGET', keys.waiters, PARKED_PREFIX .. inbox))
  if stored_ms ~= tonumber(until_ms) then
    redis.call('ZREM', keys.queue, member)
  elseif not sweep_waiters(keys, inbox) then
    forget_parked(keys, until_ms, inbox)
  end
end

local function sweep(keys, now_ms)
  sweep_parked(keys, now_ms)
  sweep_tombstones(keys, now_ms)
end
