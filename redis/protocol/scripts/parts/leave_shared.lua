-- A leave while the lock is shared.

--#include "admit.lua"
--#include "constants.lua"
--#include "handoff.lua"
--#include "inbox.lua"
--#include "queue.lua"
--#include "shared.lua"

-- Removes the caller from the holders; the last one frees the lock. Then admits waiters, or with no
-- handoff notifies the first one, if it may hold the lock, that it can race for it. The search
-- comes before the removal, after which the queue may be gone. Returns DONE, or GONE if the caller
-- was no holder, and the progress of the search.
local function leave_shared(keys, round, owner_value, queue_exists, free_message)
  local outcome, is_freed, progress = GONE, false, FINISHED
  local waiter
  local hold = read_hold(keys, owner_value)
  local is_holder = is_live(keys, hold, round.generation, round.now_ms)
  -- With its last holder the marker goes, whose life the queue need not outlive any more.
  if is_holder and round.holder_count == 1 then keys.marker_left_ms = nil end
  keep_queue(keys)
  if queue_exists then
    waiter, progress, round.look_count = find_next_waiter(keys, round.now_ms, nil, FIRST_LOOK)
  end
  if is_holder then
    outcome = DONE
    remove_hold(keys, hold)
    round.holder_count = round.holder_count - 1
    is_freed = round.holder_count == 0
    if is_freed then round.generation = nil end
  end
  if waiter and not free_message then return outcome, admit(keys, round, waiter) end
  if is_freed then redis.call('DEL', keys.lock) end
  if waiter and may_hold(round, waiter.limit) then
    round.notified = notify(waiter.inbox, free_message, waiter.value, keys.lock)
  end
  return outcome, progress
end
