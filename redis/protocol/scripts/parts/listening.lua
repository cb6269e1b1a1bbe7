-- The lease of an inbox, and whether it listens. An inbox without a subscriber is skipped only if
-- it had one before: otherwise its process may not have subscribed yet.

--#include "constants.lua"
--#include "inbox.lua"

local LISTENS = '1'
local LISTENS_NO_MORE = '0'

-- Whether the inbox of a waiter has a subscriber. A first ask trusts the record. A repeated one
-- counts the subscribers again. If there is none, the record goes, and the inbox is not skipped.
local function proves_to_listen(waiter)
  if not waiter.is_countable then return false end
  if waiter.listening == LISTENS and waiter.is_first_ask then return true end
  return has_subscriber(waiter.inbox)
end

-- Renews the lease of a waiter's inbox, which all waiters of its process share.
local function renew_inbox(keys, now_ms, waiter)
  local lease_field, lease_end_ms = INBOX_PREFIX .. waiter.inbox, now_ms + INBOX_LEASE_MS
  local listening_field = LISTENING_PREFIX .. waiter.inbox
  if proves_to_listen(waiter) then
    redis.call('HSET', keys.waiters, lease_field, lease_end_ms, listening_field, LISTENS)
  else
    redis.call('HSET', keys.waiters, lease_field, lease_end_ms)
    if waiter.listening then redis.call('HDEL', keys.waiters, listening_field) end
  end
end
