-- Puts a waiter into the queue.

--#include "constants.lua"
--#include "listening.lua"
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

-- Writes the members. An inbox that was parked or unheard is back, with all of its waiters.
local function insert_waiter(keys, ticket, waiter)
  local value, inbox = waiter.value, waiter.inbox
  local first_ticket = first_waiter(keys, inbox)
  local next_ticket = math.min(ticket, first_ticket or ticket)
  redis.call(
    'ZADD', keys.queue,
    NO_SCORE, by_ticket_member(ticket, value),
    NO_SCORE, by_inbox_member(inbox, ticket, value),
    NO_SCORE, next_member(next_ticket, inbox)
  )
  if first_ticket and first_ticket > ticket then
    redis.call('ZREM', keys.queue, next_member(first_ticket, inbox))
  end
  if first_ticket and waiter.listening == LISTENS_NO_MORE then
    redis.call('ZREM', keys.queue, unheard_member(first_ticket, inbox))
  end
  if waiter.parked_until then forget_parked(keys, waiter.parked_until, inbox) end
end

-- Puts a waiter into the queue, keeps it there, or moves it forward. Returns its ticket.
local function enqueue(keys, now_ms, waiter)
  local stored_ticket, since_ms, _, stored_inbox = read_waiter(waiter.record)
  local last_ticket = tonumber(waiter.last_ticket) or NO_TICKET
  local ticket = choose_ticket(stored_ticket, last_ticket, waiter)
  if stored_ticket and (ticket ~= stored_ticket or waiter.inbox ~= stored_inbox) then
    remove_waiter(keys, waiter.value, waiter.record)
  end
  -- If the server lost the queue, waiters bring higher tickets than it knows: new ones come after.
  last_ticket = math.max(last_ticket, waiter.earlier_ticket, ticket)
  local record = make_record(ticket, since_ms or now_ms, waiter.claim_ms, waiter.inbox)
  local waiter_field = WAITER_PREFIX .. waiter.value
  redis.call('HSET', keys.waiters, LAST_TICKET_FIELD, last_ticket, waiter_field, record)
  renew_inbox(keys, now_ms, waiter)
  insert_waiter(keys, ticket, waiter)
  if ticket % SWEEP_EVERY_TICKETS == 0 then sweep(keys, now_ms) end
  return ticket
end
