-- The queue: a sorted set whose scores are all 0, so that Redis sorts its members as text, and a
-- hash with a record of each waiter. Numbers in members have 16 digits. The members are
--   by_ticket <ticket> <owner value>          each waiter, in order
--   by_inbox <inbox> <ticket> <owner value>   each waiter of an inbox, in order
--   tombstone <until> <owner value>           see tombstone.lua
-- and one for each inbox that has waiters, with the ticket of the first of them:
--   next <ticket> <inbox>                     an inbox that can be notified, as far as is known
--   unheard <ticket> <inbox>                  an inbox that has lost its subscriber
--   parked <until> <inbox>                    an inbox whose process seems to be dead or frozen

--#include "constants.lua"

local BY_TICKET = 'by_ticket '
local BY_INBOX = 'by_inbox '
local NEXT = 'next '
local UNHEARD = 'unheard '
local NO_SCORE = 0

local function padded(number) return string.format('%016d', number) end

local function by_ticket_member(ticket, value)
  return BY_TICKET .. padded(ticket) .. ' ' .. value
end

local function by_inbox_member(inbox, ticket, value)
  return BY_INBOX .. inbox .. ' ' .. padded(ticket) .. ' ' .. value
end

local function next_member(ticket, inbox) return NEXT .. padded(ticket) .. ' ' .. inbox end

local function unheard_member(ticket, inbox) return UNHEARD .. padded(ticket) .. ' ' .. inbox end

-- The first members that begin with a prefix, which ends with a space: '!' comes after the space.
local function members_with(keys, prefix, limit)
  local to = '(' .. string.sub(prefix, 1, -2) .. '!'
  return redis.call('ZRANGEBYLEX', keys.queue, '[' .. prefix, to, 'LIMIT', 0, limit)
end

local function count_members_with(keys, prefix)
  local to = '(' .. string.sub(prefix, 1, -2) .. '!'
  return redis.call('ZLEXCOUNT', keys.queue, '[' .. prefix, to)
end

-- Returns ticket and owner value of an inbox's first waiter; nil if it has none.
local function first_waiter(keys, inbox)
  local prefix = BY_INBOX .. inbox .. ' '
  local member = unpack(members_with(keys, prefix, 1))
  if not member then return nil end
  local ticket, value = string.match(member, '^(%d+) (.*)$', #prefix + 1)
  return tonumber(ticket), value
end

-- Extends the life of the queue. Called also when the sorted set has been empty: Redis deletes an
-- empty set, and a new one has no expiry.
local function keep_queue(keys)
  redis.call('PEXPIRE', keys.queue, QUEUE_LIFE_MS)
  redis.call('PEXPIRE', keys.waiters, QUEUE_LIFE_MS)
end
