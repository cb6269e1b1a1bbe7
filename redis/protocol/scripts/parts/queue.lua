-- The queue: a sorted set of owner values by ticket, and a hash with a record of each waiter. A
-- waiter that was skipped is parked: it has no place in the sorted set, and perhaps no record.
-- Its next ask brings its ticket, which returns it to its old place.

--#include "constants.lua"

-- Returns ticket, start of the wait (ms, server time), claim (ms) and inbox; nil if there is no
-- record. Further words are ignored: a later version may add them.
local function read_waiter(record)
  if not record then return nil end
  return string.match(record, '^(%d+) (%d+) (%d+) ([^ ]+)')
end

-- Takes a waiter out of the queue for good.
local function remove_waiter(keys, owner_value)
  redis.call('ZREM', keys.queue, owner_value)
  redis.call('HDEL', keys.waiters, WAITER_PREFIX .. owner_value)
end

-- Extends the life of the queue. Called also when the sorted set has been empty: Redis deletes an
-- empty set, and a new one has no expiry.
local function keep_queue(keys)
  redis.call('PEXPIRE', keys.queue, QUEUE_LIFE_MS)
  redis.call('PEXPIRE', keys.waiters, QUEUE_LIFE_MS)
end
