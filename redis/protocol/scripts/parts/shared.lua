-- Shared holders. While there are some, the lock key holds a marker with their generation (see
-- generation.lua), which expires with the last of them. Each has a member in the queue and a field
-- in the hash; both together, with an expiry in the future, make a holder:
--   holder <generation> <expiry> <owner value>      shared:<owner value> = <generation> <expiry>

--#include "constants.lua"
--#include "grant.lua"
--#include "queue.lua"
--#include "time.lua"

local HOLDER = 'holder'
local NO_LIMIT = 0
local NO_TIME_MS = 0
local SWEPT_PER_GRANT = 2

local function family_of_holders(generation) return HOLDER .. ' ' .. generation end

local function member_of(hold)
  return make_member(family_of_holders(hold.generation), hold.expiry_ms, hold.value)
end

-- Returns how many holders of a generation expire after a time.
local function count_holders(keys, generation, after_ms)
  local family = family_of_holders(generation)
  local from, to = '[' .. family .. ' ' .. padded(after_ms + 1), '(' .. family .. '!'
  return redis.call('ZLEXCOUNT', keys.queue, from, to)
end

-- Returns the first live holders of a generation, in order of expiry.
local function list_holders(keys, generation, now_ms, limit)
  local holders, family = {}, family_of_holders(generation)
  local from, to = '[' .. family .. ' ' .. padded(now_ms + 1), '(' .. family .. '!'
  local members = redis.call('ZRANGEBYLEX', keys.queue, from, to, 'LIMIT', NO_OFFSET, limit)
  for _, member in ipairs(members) do
    local expiry_ms, value = read_member(family, member)
    table.insert(holders, { value = value, expiry_ms = expiry_ms })
  end
  return holders
end

-- Returns what the hash has of a holder; nil if it has nothing.
local function read_hold(keys, value)
  local field = redis.call('HGET', keys.waiters, SHARED_PREFIX .. value)
  if not field then return nil end
  local generation, expiry = string.match(field, '^(%x+) (%d+)$')
  return { value = value, generation = generation, expiry_ms = tonumber(expiry) }
end

-- Whether a hold is one of the lock's present generation, and not over.
local function is_live(keys, hold, generation, now_ms)
  if not hold or hold.generation ~= generation or hold.expiry_ms <= now_ms then return false end
  local member = '[' .. member_of(hold)
  return redis.call('ZLEXCOUNT', keys.queue, member, member) == 1
end

local function write_hold(keys, hold)
  redis.call('ZADD', keys.queue, NO_SCORE, member_of(hold))
  local field = SHARED_PREFIX .. hold.value
  redis.call('HSET', keys.waiters, field, hold.generation .. ' ' .. hold.expiry_ms)
end

local function remove_hold(keys, hold)
  redis.call('ZREM', keys.queue, member_of(hold))
  redis.call('HDEL', keys.waiters, SHARED_PREFIX .. hold.value)
end

-- Extends the marker to this life at least, and the queue with it.
local function extend_marker(keys, life_ms)
  if keys.marker_left_ms < life_ms then
    redis.call('PEXPIRE', keys.lock, life_ms)
    keys.marker_left_ms = life_ms
  end
  keep_queue(keys)
end

-- Extends a live hold, never shortens it. Returns its life. Begins with the extension of the queue,
-- which full memory never refuses, and then nothing that the script writes later.
local function extend_hold(keys, hold, ttl_ms, now_ms)
  local life_ms = math.max(ttl_ms, hold.expiry_ms - now_ms)
  extend_marker(keys, life_ms)
  local earlier_member = member_of(hold)
  hold.expiry_ms = now_ms + life_ms
  write_hold(keys, hold)
  if member_of(hold) ~= earlier_member then redis.call('ZREM', keys.queue, earlier_member) end
  local token_life_ms = life_ms + TOKEN_OUTLIVES_LOCK_MS
  if redis.call('PTTL', keys.token) < token_life_ms then
    redis.call('PEXPIRE', keys.token, token_life_ms)
  end
  return life_ms
end

-- Deletes holders of earlier generations, and expired ones. A field may be newer than its member.
local function sweep_holders(keys, generation, now_ms)
  for _, member in ipairs(members_of(keys, HOLDER, SWEPT_PER_GRANT)) do
    local its_generation, expiry, value = string.match(member, '^%l+ (%x+) (%d+) (.*)$')
    if its_generation == generation and is_in_future(expiry, now_ms) then return end
    redis.call('ZREM', keys.queue, member)
    local field = SHARED_PREFIX .. value
    if redis.call('HGET', keys.waiters, field) == its_generation .. ' ' .. tonumber(expiry) then
      redis.call('HDEL', keys.waiters, field)
    end
  end
end
