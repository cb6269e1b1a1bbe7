-- Puts a waiter into the queue.

--#include "constants.lua"
--#include "listening.lua"
--#include "members.lua"
--#include "parked.lua"
--#include "queue.lua"
--#include "sweep.lua"
--#include "waiter.lua"

-- Tickets begin at 1.
local NO_TICKET = 0
local SWEEP_EVERY_TICKETS = 16

-- Returns the earlier of the stored ticket and the one that the waiter brings, so that a waiter
-- never moves backward; a new ticket if there is neither.
local function choose_ticket(stored_ticket, last_ticket, waiter)
  if not stored_ticket and waiter.is_first_ask then return last_ticket + 1 end
  if not stored_ticket then return waiter.earlier_ticket end
  if waiter.is_first_ask then return stored_ticket end
  return math.min(stored_ticket, waiter.earlier_ticket)
end

-- Returns an inbox that was parked or set aside, with all of its waiters: its process is alive.
local function forget_absence(keys, waiter, first_ticket)
  if waiter.listening == LISTENS_NO_MORE then
    redis.call('ZREM', keys.queue, make_member(UNHEARD, first_ticket, waiter.inbox))
  end
  if waiter.parked_until then forget_parked(keys, waiter.parked_until, waiter.inbox) end
end

-- Puts a waiter into the queue, keeps it there, or moves it forward. Returns its ticket.
local function enqueue(keys, now_ms, waiter)
  local stored_ticket, since_ms, _, stored_inbox = read_waiter(waiter.record)
  local last_ticket = tonumber(waiter.last_ticket)
  if not last_ticket then last_ticket = NO_TICKET end
  local ticket = choose_ticket(stored_ticket, last_ticket, waiter)
  if stored_ticket then
    if ticket ~= stored_ticket or waiter.inbox ~= stored_inbox then
      remove_waiter(keys, waiter.value, waiter.record)
    end
  end
  -- If the server lost the queue, waiters bring higher tickets than it knows: new ones come after.
  last_ticket = math.max(last_ticket, waiter.earlier_ticket, ticket)
  if not since_ms then since_ms = now_ms end
  local record = ticket .. ' ' .. since_ms .. ' ' .. waiter.claim_ms .. ' ' .. waiter.inbox
  local waiter_field = WAITER_PREFIX .. waiter.value
  redis.call('HSET', keys.waiters, LAST_TICKET_FIELD, last_ticket, waiter_field, record)
  renew_inbox(keys, now_ms, waiter)
  local first_ticket = insert_members(keys, ticket, waiter.value, waiter.inbox)
  forget_absence(keys, waiter, first_ticket)
  if ticket % SWEEP_EVERY_TICKETS == 0 then sweep(keys, now_ms) end
  return ticket
end
