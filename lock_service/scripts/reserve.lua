-- Reserves a place for a request, or renews its reservation, within the limit of the principal.
-- Requests for the same subject share a reservation, which counts once.
--
-- KEYS[1] reservations: a sorted set, subjects by the end of their last mark (ms)
-- KEYS[2] marks: a hash, the marks of each subject
-- ARGV[1] subject   ARGV[2] nonce of the request   ARGV[3] state   ARGV[4] life (ms)
-- ARGV[5] limit
--
-- Returns { RESERVED } or { FULL, time until the first reservation ends (ms) }

--#include "../../redis/protocol/scripts/parts/time.lua"
--#include "parts/marks.lua"

local keys = { reservations = KEYS[1], marks = KEYS[2] }
local subject, nonce, state = ARGV[1], ARGV[2], ARGV[3]
local life_ms, limit = tonumber(ARGV[4]), tonumber(ARGV[5])

local RESERVED = 1
local FULL = 0
-- The length of a range.
local ONE = 1
-- Requests in progress that may share a reservation.
local MAX_MARKS = 32

local now_ms = server_time()
local after_now = '(' .. string.format('%.0f', now_ms)

-- Returns the time (ms) at which the first of the reservations ends that have not ended.
local function first_end(keys, after_now)
  local _, end_digits = unpack(redis.call(
    'ZRANGEBYSCORE', keys.reservations, after_now, '+inf', 'WITHSCORES', 'LIMIT', FROM_FIRST, ONE
  ))
  return tonumber(end_digits)
end

-- Keeps the keys at least for this long.
local function keep_keys(keys, life_ms)
  if redis.call('PTTL', keys.reservations) < life_ms then
    redis.call('PEXPIRE', keys.reservations, life_ms)
  end
  if redis.call('PTTL', keys.marks) < life_ms then redis.call('PEXPIRE', keys.marks, life_ms) end
end

-- Returns the reply for a request that gets no place.
local function full_reply()
  local first_end_ms = first_end(keys, after_now)
  if not first_end_ms then first_end_ms = now_ms end
  return { FULL, first_end_ms - now_ms }
end

sweep(keys, now_ms)
local end_ms = now_ms + life_ms
local marks = read_marks(redis.call('HGET', keys.marks, subject), now_ms)
local others, has_own = {}, false
for _, mark in ipairs(marks) do
  if mark.nonce == nonce then
    has_own = true
    -- A stale copy of the command must not shorten what the request has got.
    if mark.state == SETTLED then
      state = SETTLED
      end_ms = math.max(end_ms, mark.end_ms)
    end
  elseif mark.state == SETTLED and state == SETTLED then
    -- Requests that have got the same thing: one mark is enough, up to the later end.
    end_ms = math.max(end_ms, mark.end_ms)
  else
    table.insert(others, mark)
  end
end

if #marks == 0 then
  local other_count = redis.call('ZCOUNT', keys.reservations, after_now, '+inf')
  if other_count >= limit then return full_reply() end
elseif not has_own and #others >= MAX_MARKS then
  return full_reply()
end

table.insert(others, { nonce = nonce, state = state, end_ms = end_ms })
write_marks(keys, subject, others)
keep_keys(keys, end_ms - now_ms)
return { RESERVED }
