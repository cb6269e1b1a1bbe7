-- An ask for a share of a lock that is free or shared.

--#include "admit.lua"
--#include "constants.lua"
--#include "enqueue.lua"
--#include "generation.lua"
--#include "parked.lua"
--#include "shared.lua"
--#include "waiter.lua"

-- Returns who holds the lock after a round, as the reply to a waiter needs it.
local function holder_after(keys, round)
  local holder = round.next_waiter
  if not holder then
    return { value = SHARED_OWNER .. round.generation, remaining_ms = keys.marker_left_ms }
  end
  holder.remaining_ms = holder.claim_ms
  return holder
end

-- Answers a holder that asks again. It had no token for itself: nothing exclusive can have come in
-- between, so the last one will do. Goes on with a batch that was not finished.
local function answer_holder(keys, round, waiter, hold)
  local now_ms = round.now_ms
  local life_ms = extend_hold(keys, hold, round.asker_ttl_ms, now_ms)
  if waiter.record then remove_waiter(keys, waiter.value, waiter.record) end
  if waiter.last_ticket and admit(keys, round) == SEARCHING then return { SEARCHING, now_ms } end
  local token = tonumber(redis.call('GET', keys.token))
  if not token then token = next_token(keys, life_ms, round.now_us) end
  return { GRANTED, now_ms, life_ms, token, count_others(keys, waiter.inbox) }
end

-- Answers the ask: a holder that asks again, a caller that nobody waits before, or one that does
-- not overtake anybody who waits.
local function answer_shared(keys, round, waiter, ttl_ms, is_waiting)
  local now_ms = round.now_ms
  round.asker_value, round.asker_ttl_ms = waiter.value, ttl_ms
  local hold = read_hold(keys, waiter.value)
  if is_live(keys, hold, round.generation, now_ms) then
    return answer_holder(keys, round, waiter, hold)
  end
  local is_first = not waiter.last_ticket and may_hold(round, waiter.limit)
  local ticket
  if not is_first then
    if is_waiting then ticket = enqueue(keys, now_ms, waiter) end
    if waiter.last_ticket then
      if not round.generation then
        park_lapsed_inbox(keys, now_ms, round.holder_record, waiter.inbox)
      end
      if admit(keys, round) == SEARCHING then return { SEARCHING, now_ms } end
      local is_alone = round.is_queue_over and not round.asker_token
      if is_alone then is_first = may_hold(round, waiter.limit) end
    end
  end
  local token = round.asker_token
  if is_first then token = grant_shared(keys, round, waiter.value, ttl_ms) end
  if not token then
    return refused_reply(keys, now_ms, waiter, ticket, holder_after(keys, round))
  end
  return { GRANTED, now_ms, ttl_ms, token, count_others(keys, waiter.inbox) }
end
