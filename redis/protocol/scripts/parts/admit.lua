-- Grants a free or shared lock to the waiters at the head of the queue, as far as their modes and
-- limits allow. What one call does and finds on the way is its round.

--#include "constants.lua"
--#include "generation.lua"
--#include "grant.lua"
--#include "handoff.lua"
--#include "queue.lua"
--#include "shared.lua"

local NO_HOLDERS = 0
local NO_LOOK = 0
-- A generation is written in two halves: some builds of Lua format numbers of 32 bits only.
local HALF = 4294967296

-- Begins a round for a lock that is free (no generation) or shared. While the marker lives, it has
-- a member of its generation, though perhaps an expired one: if there is none, the queue was lost.
-- Its holders still believe in their leases, and nobody can count them.
local function begin_round(keys, generation, now_ms, now_us, holder_record)
  local round = {
    generation = generation, now_ms = now_ms, now_us = now_us, holder_record = holder_record,
    holder_count = NO_HOLDERS, is_lost = false, look_count = NO_LOOK, notified = NOTIFIED,
  }
  if generation then
    round.holder_count = count_holders(keys, generation, now_ms)
    if round.holder_count == 0 then
      round.is_lost = count_holders(keys, generation, NO_TIME_MS) == 0
    end
  end
  return round
end

-- Whether a request may hold the lock now, besides the holders. An exclusive one has no limit.
local function may_hold(round, limit)
  if not round.generation then return true end
  if not limit or round.is_lost then return false end
  return limit == NO_LIMIT or round.holder_count < limit
end

-- Writes and returns the token of a shared grant: max(last + 1, server µs). Its key never lives
-- shorter than before.
local function next_token(keys, life_ms, now_us)
  local token = now_us
  local last_token = tonumber(redis.call('GET', keys.token))
  if last_token and last_token >= now_us then token = last_token + 1 end
  local token_life_ms = math.max(redis.call('PTTL', keys.token), life_ms + TOKEN_OUTLIVES_LOCK_MS)
  redis.call('SET', keys.token, token, 'PX', token_life_ms)
  return token
end

-- Adds a shared holder. The first one begins a generation, which is named by its token. Returns the
-- token, which is written first, as in grant().
local function grant_shared(keys, round, value, life_ms)
  local token = next_token(keys, life_ms, round.now_us)
  if not round.generation then
    round.generation = string.format('%08x%08x', math.floor(token / HALF), token % HALF)
    redis.call('SET', keys.lock, SHARED_OWNER .. round.generation, 'PX', life_ms)
    keys.marker_left_ms = life_ms
    if round.holder_record then redis.call('HDEL', keys.waiters, HOLDER_FIELD) end
  end
  local expiry_ms = round.now_ms + life_ms
  write_hold(keys, { value = value, generation = round.generation, expiry_ms = expiry_ms })
  extend_marker(keys, life_ms)
  sweep_holders(keys, round.generation, round.now_ms)
  round.holder_count = round.holder_count + 1
  return token
end

-- Adds a waiter to the holders, for its claim, and notifies it. If it is the asker, it gets its
-- TTL. It leaves the queue last: an empty queue would be deleted, and not be accessible during the
-- move of its slot.
local function admit_shared(keys, round, waiter)
  local is_asker = waiter.value == round.asker_value
  local life_ms = waiter.claim_ms
  if is_asker then life_ms = round.asker_ttl_ms end
  local token = grant_shared(keys, round, waiter.value, life_ms)
  remove_first_waiter(keys, waiter)
  if is_asker then
    round.asker_token = token
  elseif notify_of_grant(keys, waiter, token, round.now_ms) == NOT_NOTIFIED then
    round.notified = NOT_NOTIFIED
  end
end

-- Admits waiters, beginning with the first one if the caller has found it. Returns FINISHED, or
-- SEARCHING after as many looks as one call may take: then the caller must be called again at once.
-- Begins with the extension of the queue, which full memory never refuses.
local function admit(keys, round, waiter)
  keep_queue(keys)
  while true do
    if not waiter then
      local progress, look_count
      local first_look = round.look_count + FIRST_LOOK
      waiter, progress, look_count = find_next_waiter(
        keys, round.now_ms, round.asker_value, first_look)
      if not waiter then
        round.is_queue_over = progress == FINISHED
        return progress
      end
      round.look_count = look_count
    end
    if not may_hold(round, waiter.limit) then return FINISHED end
    if not waiter.limit then
      round.notified = grant_next(keys, waiter, round.now_ms, round.now_us)
      round.next_waiter = waiter
      return FINISHED
    end
    admit_shared(keys, round, waiter)
    waiter = nil
  end
end
