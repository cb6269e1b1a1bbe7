-- Extends a lock that its owner still holds, and confirms a claim. Never shortens or re-creates it.
--
-- KEYS[1] lock   KEYS[3] waiters   KEYS[4] token
-- ARGV[1] owner value   ARGV[2] TTL (ms)
--
-- Returns { DONE, remaining (ms) }, { GONE } or { OTHER_OWNER }

--#include "parts/constants.lua"
--#include "parts/grant.lua"
--#include "parts/holder.lua"

local keys = { lock = KEYS[1], waiters = KEYS[3], token = KEYS[4] }
local owner_value, ttl_ms = ARGV[1], tonumber(ARGV[2])

local lock_value = redis.call('GET', keys.lock)
if not lock_value then return { GONE } end
if lock_value ~= owner_value then return { OTHER_OWNER } end

local remaining_ms = redis.call('PTTL', keys.lock)
if remaining_ms < ttl_ms then
  redis.call('PEXPIRE', keys.lock, ttl_ms)
  remaining_ms = ttl_ms
end
local token_life_ms = remaining_ms + TOKEN_OUTLIVES_LOCK_MS
if redis.call('PTTL', keys.token) < token_life_ms then
  redis.call('PEXPIRE', keys.token, token_life_ms)
end
confirm_holder(keys, redis.call('HGET', keys.waiters, HOLDER_FIELD))
return { DONE, remaining_ms }
