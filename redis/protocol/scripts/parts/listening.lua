-- Records which inboxes were seen with a subscriber. An inbox without one is skipped only if it had
-- one before: otherwise its process may not have subscribed yet.

--#include "constants.lua"
--#include "inbox.lua"

local LISTENS = '1'

-- Whether the inbox of a waiter has a subscriber. A first ask trusts the record. A repeated one
-- counts the subscribers again. If there is none, the record goes, and the inbox is not skipped.
local function proves_to_listen(waiter)
  if not waiter.is_countable then return false end
  if waiter.is_listening and waiter.is_first_ask then return true end
  return has_subscriber(waiter.inbox)
end

-- Updates the record of a waiter's inbox if it has changed.
local function update_listening(keys, waiter)
  local is_listening = proves_to_listen(waiter)
  if is_listening and not waiter.is_listening then
    redis.call('HSET', keys.waiters, LISTENING_PREFIX .. waiter.inbox, LISTENS)
  elseif waiter.is_listening and not is_listening then
    redis.call('HDEL', keys.waiters, LISTENING_PREFIX .. waiter.inbox)
  end
end
