-- Takes the lock from the owner that the caller saw, ahead of all waiters. Takes a free lock, too,
-- but none from another owner. The victim is notified if its inbox is known: if it was granted the
-- lock from the queue, or if its nonce is the id of its inbox. Nobody listens to any other nonce.
--
-- KEYS[1] lock   KEYS[3] waiters   KEYS[4] token
-- ARGV[1] owner value   ARGV[2] TTL (ms)   ARGV[3] do nothing after (ms, server time; 0 for never)
-- ARGV[4] the SHA-1 of the victim's owner value: a client cannot send back every foreign value
--
-- Returns (times in ms)
--   { GRANTED, server time, remaining, token }
--   { HELD, server time, remaining }: an owner that is not the victim holds the lock
--   { TOO_LATE, server time }
--   { OWNER_HAS_LEFT, server time }: a tombstone refuses the caller

--#include "parts/constants.lua"
--#include "parts/extend.lua"
--#include "parts/grant.lua"
--#include "parts/holder.lua"
--#include "parts/inbox.lua"
--#include "parts/owner_value.lua"
--#include "parts/time.lua"

local keys = { lock = KEYS[1], waiters = KEYS[3], token = KEYS[4] }
local owner_value, ttl_ms, not_after_ms = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])
local victim_digest = ARGV[4]

local STOLEN_MESSAGE = 'stolen'

local now_ms, now_us = server_time()
if not_after_ms > 0 and now_ms > not_after_ms then return { TOO_LATE, now_ms } end
local tombstone_end_ms, holder_record = unpack(redis.call(
  'HMGET', keys.waiters, TOMBSTONE_PREFIX .. owner_value, HOLDER_FIELD
))
if is_in_future(tombstone_end_ms, now_ms) then return { OWNER_HAS_LEFT, now_ms } end

local lock_value = redis.call('GET', keys.lock)
local remaining_ms = NO_KEY_MS
if lock_value then remaining_ms = redis.call('PTTL', keys.lock) end
if lock_value == owner_value then -- a copy of this steal was executed before
  local life_ms = math.max(remaining_ms, ttl_ms)
  return { GRANTED, now_ms, life_ms, extend(keys, owner_value, life_ms, now_us) }
end
if lock_value and redis.sha1hex(lock_value) ~= victim_digest then
  return { HELD, now_ms, remaining_ms }
end

local token = grant(keys, owner_value, ttl_ms, now_us)
local _, inbox, holder_value = read_holder(holder_record)
if holder_record then redis.call('HDEL', keys.waiters, HOLDER_FIELD) end
if lock_value then
  if holder_value ~= lock_value then inbox = nonce_of(lock_value) end
  if inbox then notify(inbox, STOLEN_MESSAGE, lock_value, keys.lock) end
end
return { GRANTED, now_ms, ttl_ms, token }
