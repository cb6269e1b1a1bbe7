-- Which inboxes have proved that somebody subscribes to them. Only these are skipped without a
-- subscriber: others may not have subscribed yet.

--#include "constants.lua"
--#include "inbox.lua"

local LISTENS = '1'

-- Whether the inbox of a waiter has proved that it listens. A repeated ask counts anew: after a
-- subscription was lost for good, its waiters must not be skipped for ever.
local function proves_to_listen(waiter)
  if not waiter.is_countable then return false end
  if waiter.is_listening and waiter.is_first_ask then return true end
  return has_subscriber(waiter.inbox)
end

-- Stores whether the inbox of a waiter listens, if that has changed.
local function update_listening(keys, waiter)
  local is_listening = proves_to_listen(waiter)
  if is_listening and not waiter.is_listening then
    redis.call('HSET', keys.waiters, LISTENING_PREFIX .. waiter.inbox, LISTENS)
  elseif waiter.is_listening and not is_listening then
    redis.call('HDEL', keys.waiters, LISTENING_PREFIX .. waiter.inbox)
  end
end
