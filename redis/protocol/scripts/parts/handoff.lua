-- Hands the lock over to a waiter.

--#include "constants.lua"
--#include "grant.lua"
--#include "holder.lua"
--#include "inbox.lua"
--#include "members.lua"

local GRANT_MESSAGE = 'grant'

-- Returns a token as text. Lua's own conversion would keep only 14 digits.
local function token_text(token) return string.format('%.0f', token) end

-- Takes the next waiter, as find_next_waiter() has returned it, out of the queue.
local function remove_first_waiter(keys, waiter)
  remove_members(keys, waiter.ticket, waiter.value, waiter.inbox, waiter.second_member)
end

-- Grants the lock to the next waiter, for its claim, and notifies it alone. Returns NOTIFIED or
-- NOT_NOTIFIED. Redis refuses a script for lack of memory only at its first write, and never a
-- deletion. So a handoff, which begins with one, is not refused.
local function hand_over(keys, waiter, now_ms, now_us)
  remove_first_waiter(keys, waiter)
  local token = grant(keys, waiter.value, waiter.claim_ms, now_us)
  write_holder(keys, UNCONFIRMED, waiter.inbox, waiter.value)
  local times = now_ms .. ' ' .. waiter.claim_ms
  local first_line = GRANT_MESSAGE .. ' ' .. token_text(token) .. ' ' .. times
  return notify(waiter.inbox, first_line, waiter.value, keys.lock)
end
