-- Grants a lock that is free and has no queue. Otherwise the caller enters the queue, or keeps its
-- place; if the lock is free then, the next waiter gets it, which may be the caller.
--
-- KEYS[1] lock   KEYS[2] queue   KEYS[3] waiters   KEYS[4] token
-- ARGV[1] owner value   ARGV[2] TTL (ms)   ARGV[3] do nothing after (ms, server time; 0 for never)
-- ARGV[4] mode: 'wait' in the queue; 'try' without entering it; 'attach' only if the owner id holds
-- the lock already   ARGV[5] three words: the inbox (channel of the process); '1' if PUBSUB NUMSUB
-- counts its subscribers (once subscribed, never in a cluster); ticket of an earlier ask, or 0
--
-- Returns (times in ms)
--   { GRANTED, server time, remaining, token }
--   { HELD, server time, remaining, queue length if 'try' }: refused; 'attach' also if it is free
--   { QUEUED, server time, remaining, ticket, position, queue length, waiters of this inbox,
--     HOLDER_IS_OURS or HOLDER_IS_FOREIGN, a holder of this inbox that came from the queue }
--   { SEARCHING, server time }: the search for the next waiter is not over; ask again at once
--   { TOO_LATE, server time }; { OWNER_HAS_LEFT, server time }: a tombstone refuses the caller

--#include "parts/constants.lua"
--#include "parts/grant.lua"
--#include "parts/time.lua"

local keys = { lock = KEYS[1], queue = KEYS[2], waiters = KEYS[3], token = KEYS[4] }
local owner_value, ttl_ms, not_after_ms = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])
local mode, place = ARGV[4], ARGV[5]

local MODE_WAIT = 'wait'
local MODE_ATTACH = 'attach'
local COUNTABLE = '1'
-- A grant from the queue is a claim, at most this long, until the new holder confirms it.
local MAX_CLAIM_MS = 3000

local now_ms, now_us = server_time()
if not_after_ms > 0 and now_ms > not_after_ms then return { TOO_LATE, now_ms } end

-- The usual case: the lock is free, and there is neither a queue nor a tombstone.
if redis.call('EXISTS', keys.lock, keys.waiters) == 0 and mode ~= MODE_ATTACH then
  return { GRANTED, now_ms, ttl_ms, grant(keys, owner_value, ttl_ms, now_us) }
end

--#include "parts/enqueue.lua"
--#include "parts/grant_again.lua"
--#include "parts/holder.lua"
--#include "parts/owner_value.lua"
--#include "parts/parked.lua"
--#include "parts/place.lua"
--#include "parts/waiter.lua"

local inbox, countable, earlier_ticket = string.match(place, '^(%S+) (%d) (%d+)$')
earlier_ticket = tonumber(earlier_ticket)
local tombstone_end_ms, record, last_ticket, listening, parked_until, holder_record = unpack(
  redis.call('HMGET', keys.waiters, TOMBSTONE_PREFIX .. owner_value, WAITER_PREFIX .. owner_value,
    LAST_TICKET_FIELD, LISTENING_PREFIX .. inbox, PARKED_PREFIX .. inbox, HOLDER_FIELD)
)
if is_in_future(tombstone_end_ms, now_ms) then return { OWNER_HAS_LEFT, now_ms } end
local lock_value = redis.call('GET', keys.lock)
local remaining_ms = redis.call('PTTL', keys.lock)
if lock_value and has_same_owner_id(lock_value, owner_value) then
  if record then remove_waiter(keys, owner_value, record) end
  local life_ms = math.max(remaining_ms, ttl_ms)
  local token = grant_again(keys, lock_value, holder_record, owner_value, life_ms, now_us)
  return { GRANTED, now_ms, life_ms, token }
end
if mode == MODE_ATTACH then return { HELD, now_ms, remaining_ms } end
forget_own_lapse(keys, holder_record, lock_value, inbox)

if not lock_value and not last_ticket then -- no queue: the hash holds only tombstones
  return { GRANTED, now_ms, ttl_ms, grant(keys, owner_value, ttl_ms, now_us) }
end

local waiter = {
  value = owner_value, record = record, inbox = inbox, claim_ms = math.min(ttl_ms, MAX_CLAIM_MS),
  is_first_ask = earlier_ticket == NO_TICKET, earlier_ticket = earlier_ticket,
  last_ticket = last_ticket, parked_until = parked_until,
  is_countable = countable == COUNTABLE, listening = listening,
}
local ticket
if mode == MODE_WAIT then ticket = enqueue(keys, now_ms, waiter) end
if lock_value then
  if not ticket then return held_reply(keys, now_ms, last_ticket, remaining_ms) end
  local holder_inbox = inbox_of_claim(holder_record, lock_value)
  local holder = { value = lock_value, inbox = holder_inbox, remaining_ms = remaining_ms }
  return queued_reply(keys, now_ms, waiter, ticket, holder)
end

-- The lock is free, but calls have queued for it: the next waiter gets it.
--#include "parts/handoff.lua"
--#include "parts/next_waiter.lua"

park_lapsed_inbox(keys, now_ms, holder_record, inbox)
local next_waiter, progress = find_next_waiter(keys, now_ms, owner_value)
if progress == SEARCHING then return { SEARCHING, now_ms } end
if not next_waiter or next_waiter.value == owner_value then
  if next_waiter then remove_first_waiter(keys, next_waiter) end
  if holder_record then redis.call('HDEL', keys.waiters, HOLDER_FIELD) end
  return { GRANTED, now_ms, ttl_ms, grant(keys, owner_value, ttl_ms, now_us) }
end
hand_over(keys, next_waiter, now_ms, now_us)
next_waiter.remaining_ms = next_waiter.claim_ms
if not ticket then return held_reply(keys, now_ms, last_ticket, next_waiter.remaining_ms) end
return queued_reply(keys, now_ms, waiter, ticket, next_waiter)
