-- Releases the lock, leaves the queue, or both. Then a free lock goes to the next live waiter.
--
-- KEYS[1] lock   KEYS[2] queue   KEYS[3] waiters   KEYS[4] token
-- ARGV[1] owner value
-- ARGV[2] how long (ms) a tombstone refuses asks of this value from now on; 0 for no tombstone
-- ARGV[3] 'handoff': the next waiter becomes the holder; 'free': it is notified that the lock is
-- free, and races for it
-- ARGV[4] 'keep': the caller leaves the queue, but keeps a lock that it holds; left out otherwise
--
-- Returns { DONE (released), GONE (nobody held it) or OTHER_OWNER,
--   NOTIFIED or NOT_NOTIFIED (no right to publish),
--   FINISHED or SEARCHING (nobody has a free lock yet: leave again at once),
--   HAS_LEFT_BEFORE if an earlier leave of this value, or a copy of this one, wrote a tombstone }

--#include "parts/constants.lua"

local keys = { lock = KEYS[1], queue = KEYS[2], waiters = KEYS[3], token = KEYS[4] }
local owner_value, tombstone_ms = ARGV[1], tonumber(ARGV[2])
local succession, keeping = ARGV[3], ARGV[4]

local HANDOFF = 'handoff'
local KEEP = 'keep'
local FREE_MESSAGE = 'free'

local lock_value = redis.call('GET', keys.lock)
local is_mine = lock_value == owner_value and keeping ~= KEEP
local outcome = GONE
if is_mine then outcome = DONE elseif lock_value then outcome = OTHER_OWNER end

-- The usual case: there is neither a queue nor a tombstone, and none is wanted.
if tombstone_ms == 0 and redis.call('EXISTS', keys.waiters) == 0 then
  if is_mine then redis.call('DEL', keys.lock) end
  return { outcome, NOTIFIED, FINISHED }
end

local holder_record, record, last_ticket, tombstone_end_ms = unpack(redis.call(
  'HMGET', keys.waiters, HOLDER_FIELD, WAITER_PREFIX .. owner_value, LAST_TICKET_FIELD,
  TOMBSTONE_PREFIX .. owner_value
))
local past
if tombstone_end_ms then past = HAS_LEFT_BEFORE end
-- The hash holds only tombstones: nobody waits.
if not last_ticket and tombstone_ms == 0 then
  if is_mine then redis.call('DEL', keys.lock) end
  return { outcome, NOTIFIED, FINISHED, past }
end

--#include "parts/handoff.lua"
--#include "parts/holder.lua"
--#include "parts/inbox.lua"
--#include "parts/next_waiter.lua"
--#include "parts/parked.lua"
--#include "parts/time.lua"
--#include "parts/tombstone.lua"
--#include "parts/unused_queue.lua"
--#include "parts/waiter.lua"

local now_ms, now_us = server_time()
if record then remove_waiter(keys, owner_value, record) end
local next_waiter
local notified, progress = NOTIFIED, FINISHED
if is_mine or not lock_value then
  if not is_mine then park_lapsed_inbox(keys, now_ms, holder_record) end
  next_waiter, progress = find_next_waiter(keys, now_ms)
  if next_waiter and succession == HANDOFF then
    notified = hand_over(keys, next_waiter, now_ms, now_us)
  else
    if is_mine then redis.call('DEL', keys.lock) end
    if holder_record then redis.call('HDEL', keys.waiters, HOLDER_FIELD) end
    if next_waiter then
      notified = notify(next_waiter.inbox, FREE_MESSAGE, next_waiter.value, keys.lock)
    end
  end
end
if tombstone_ms > 0 then
  sweep_tombstones(keys, now_ms)
  write_tombstone(keys, now_ms + tombstone_ms, owner_value)
elseif not next_waiter and (is_mine or read_holder(holder_record) ~= UNCONFIRMED) then
  -- While a claim is unconfirmed, its waiter may come back and needs the last ticket.
  delete_queue_if_unused(keys)
end
return { outcome, notified, progress, past }
