-- Tombstones, which refuse late copies of the asks of an owner that has left.

--#include "constants.lua"
--#include "queue.lua"
--#include "time.lua"

local TOMBSTONE = 'tombstone '

local function write_tombstone(keys, until_ms, value)
  redis.call('HSET', keys.waiters, TOMBSTONE_PREFIX .. value, until_ms)
  redis.call('ZADD', keys.queue, NO_SCORE, TOMBSTONE .. padded(until_ms) .. ' ' .. value)
  keep_queue(keys)
end

-- Deletes expired tombstones, oldest first. A field may be newer than its member.
local function sweep_tombstones(keys, now_ms)
  for _, member in ipairs(members_with(keys, TOMBSTONE, MAX_LOOKED_AT)) do
    local until_ms, value = string.match(member, '^(%d+) (.*)$', #TOMBSTONE + 1)
    if is_in_future(until_ms, now_ms) then return end
    local field = TOMBSTONE_PREFIX .. value
    if not is_in_future(redis.call('HGET', keys.waiters, field), now_ms) then
      redis.call('HDEL', keys.waiters, field)
    end
    redis.call('ZREM', keys.queue, member)
  end
end
