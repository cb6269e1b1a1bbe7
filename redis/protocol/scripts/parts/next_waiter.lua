-- Chooses the waiter that gets a free lock.

--#include "candidate.lua"
--#include "constants.lua"
--#include "parked.lua"
--#include "queue.lua"

-- The longest claim of a waiter that cannot be notified: its next ask finds the grant.
local UNHEARD_CLAIM_MS = 1000

-- Chooses among inboxes that have a live process but no subscriber: they were probably cut off
-- together. The first one gets a short claim. Returns what find_next_waiter() returns.
local function find_unheard_waiter(keys, now_ms, looks_left)
  for _ = 1, looks_left do
    local _, inbox = first_of(keys, UNHEARD)
    if not inbox then return nil, FINISHED end
    local is_alive = look_at_inbox(keys, now_ms, inbox)
    if not is_alive then
      park_inbox(keys, now_ms, inbox)
    else
      local waiter = read_first_waiter(keys, inbox)
      if waiter then
        waiter.claim_ms = math.min(waiter.claim_ms, UNHEARD_CLAIM_MS)
        return waiter, FINISHED
      end
    end
  end
  return nil, SEARCHING
end

-- Returns the next waiter, which stays in the queue, and FINISHED: the first one that can be
-- notified, or the asker if it comes before that one; else the first one that has a live process;
-- else nil. Returns SEARCHING if it has looked at as many inboxes as one call may. Each inbox that
-- it skips is parked or set aside, so the next search does not look at it again.
local function find_next_waiter(keys, now_ms, asker_value)
  for look_count = 1, MAX_LOOKED_AT do
    local _, inbox = first_of(keys, NEXT)
    if not inbox then return find_unheard_waiter(keys, now_ms, MAX_LOOKED_AT - look_count) end
    local is_alive, is_heard = look_at_inbox(keys, now_ms, inbox)
    if not is_alive then
      park_inbox(keys, now_ms, inbox)
    else
      local waiter = read_first_waiter(keys, inbox)
      if waiter and (is_heard or waiter.value == asker_value) then return waiter, FINISHED end
      if waiter then set_aside(keys, waiter.ticket, inbox) end
    end
  end
  return nil, SEARCHING
end
