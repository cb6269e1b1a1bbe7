-- Inboxes: the channels on which processes are notified.

--#include "constants.lua"
--#include "text.lua"

local INBOX_CHANNEL_PREFIX = 'holdfast:1:inbox:'
-- The id of an inbox without a channel begins so.
local MUTE_INBOX_PREFIX = '-'

-- Publishes a message. Returns NOT_NOTIFIED if this user may not publish.
local function notify(inbox, first_line, owner_value, lock_key)
  if strip_prefix(inbox, MUTE_INBOX_PREFIX) then return NOTIFIED end
  local message = first_line .. '\n' .. owner_value .. '\n' .. lock_key
  local reply = redis.pcall('PUBLISH', INBOX_CHANNEL_PREFIX .. inbox, message)
  if type(reply) == 'table' then return NOT_NOTIFIED end
  return NOTIFIED
end

-- Whether anybody subscribes to an inbox; nil if this user may not ask.
local function has_subscriber(inbox)
  local reply = redis.pcall('PUBSUB', 'NUMSUB', INBOX_CHANNEL_PREFIX .. inbox)
  if reply.err then return nil end
  local _, subscriber_count = unpack(reply)
  return subscriber_count > 0
end
