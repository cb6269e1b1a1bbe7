-- Chooses the waiter that gets a free lock.

--#include "constants.lua"
--#include "holder.lua"
--#include "inbox.lua"
--#include "queue.lua"
--#include "time.lua"

-- The longest claim of a waiter that cannot be notified: its next ask finds the grant.
local UNHEARD_CLAIM_MS = 1000
-- How long parked waiters may return ahead of new ones: leave.lua keeps the last ticket until then.
local COME_BACK_MS = 6000

-- If the last holder let its claim expire unconfirmed, its process is dead or frozen: ends the
-- lease of its inbox, so that all of its waiters are skipped. The asker's own process is alive.
local function park_lapsed_inbox(keys, now_ms, holder_record, asker_inbox)
  local state, inbox = read_holder(holder_record)
  if state ~= UNCONFIRMED or inbox == asker_inbox then return end
  redis.call('HDEL', keys.waiters, INBOX_PREFIX .. inbox)
  redis.call('HSET', keys.waiters, PARKED_UNTIL_FIELD, now_ms + COME_BACK_MS)
end

-- Chooses among waiters whose inbox has a lease but no subscriber, if there are any: probably they
-- were cut off together. The first one gets a short claim, and the others keep their places.
local function take_first_unheard(keys, unheard_waiters)
  local first = unheard_waiters[1]
  if not first then return nil end
  for index, waiter in ipairs(unheard_waiters) do
    if index > 1 then redis.call('ZADD', keys.queue, waiter.ticket, waiter.value) end
  end
  keep_queue(keys)
  first.claim_ms = math.min(first.claim_ms, UNHEARD_CLAIM_MS)
  return first
end

-- Takes the next waiter out of the queue: the first live one, or the asker if it comes first, else
-- the first one without a subscriber, else nil. Waiters whose inbox has no lease or has lost its
-- subscriber are skipped: they leave the queue, and their next ask returns them to their places.
local function take_next_waiter(keys, now_ms, asker_value)
  local unheard_waiters = {}
  while true do
    local value, ticket = unpack(redis.call('ZPOPMIN', keys.queue))
    if not value then return take_first_unheard(keys, unheard_waiters) end
    if value == asker_value then return { value = value } end
    local _, _, claim_ms, inbox =
      read_waiter(redis.call('HGET', keys.waiters, WAITER_PREFIX .. value))
    if inbox then
      local lease_end_ms, is_listening =
        unpack(redis.call('HMGET', keys.waiters, INBOX_PREFIX .. inbox, LISTENING_PREFIX .. inbox))
      local waiter = { value = value, ticket = ticket, claim_ms = claim_ms, inbox = inbox }
      if not is_in_future(lease_end_ms, now_ms) then
        redis.call('HDEL', keys.waiters, WAITER_PREFIX .. value)
      elseif is_listening and has_subscriber(inbox) == false then
        unheard_waiters[#unheard_waiters + 1] = waiter
      else
        return waiter
      end
    end
  end
end
