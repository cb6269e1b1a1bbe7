-- Puts a waiter into the queue.

--#include "constants.lua"
--#include "listening.lua"
--#include "queue.lua"
--#include "sweep.lua"

-- Tickets begin at 1.
local NO_TICKET = 0
local SWEEP_EVERY_TICKETS = 64

-- Returns the earlier of the stored ticket and the one that the waiter brings, so that a waiter
-- never moves backward; a new ticket if there is neither.
local function choose_ticket(stored_ticket, last_ticket, waiter)
  if not stored_ticket and waiter.is_first_ask then return last_ticket + 1 end
  if not stored_ticket then return waiter.earlier_ticket end
  if waiter.is_first_ask then return tonumber(stored_ticket) end
  return math.min(stored_ticket, waiter.earlier_ticket)
end

-- Puts a waiter into the queue, keeps it there, or moves it forward. Returns its ticket. Also
-- renews the lease of its inbox, which all waiters of its process share.
local function enqueue(keys, now_ms, waiter)
  local stored_ticket, since_ms = read_waiter(waiter.record)
  if not since_ms then since_ms = now_ms end
  local last_ticket = tonumber(waiter.last_ticket)
  if not last_ticket then last_ticket = NO_TICKET end
  local ticket = choose_ticket(stored_ticket, last_ticket, waiter)
  -- If the server lost the queue, waiters bring higher tickets than it knows: new ones come after.
  last_ticket = math.max(last_ticket, waiter.earlier_ticket, ticket)
  local record = ticket .. ' ' .. since_ms .. ' ' .. waiter.claim_ms .. ' ' .. waiter.inbox
  redis.call(
    'HSET', keys.waiters,
    LAST_TICKET_FIELD, last_ticket,
    WAITER_PREFIX .. waiter.value, record,
    INBOX_PREFIX .. waiter.inbox, now_ms + INBOX_LEASE_MS
  )
  update_listening(keys, waiter)
  redis.call('ZADD', keys.queue, ticket, waiter.value)
  if ticket % SWEEP_EVERY_TICKETS == 0 then sweep(keys, now_ms) end
  return ticket
end
