-- Deletes the records of a queue that is no longer needed.

--#include "constants.lua"
--#include "text.lua"
--#include "time.lua"

-- Deletes the hash if it holds no waiter and no tombstone. While parked waiters may come back, the
-- hash stays for its last ticket, which puts new waiters behind them.
local function delete_queue_if_unused(keys, now_ms)
  if redis.call('EXISTS', keys.queue) == 1 then return end
  if is_in_future(redis.call('HGET', keys.waiters, PARKED_UNTIL_FIELD), now_ms) then return end
  for _, field in ipairs(redis.call('HKEYS', keys.waiters)) do
    if strip_prefix(field, WAITER_PREFIX) or strip_prefix(field, TOMBSTONE_PREFIX) then return end
  end
  redis.call('DEL', keys.waiters)
end
