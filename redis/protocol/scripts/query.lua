-- Reads the holder and the live waiters of a lock, in order. Writes nothing.
--
-- KEYS[1] lock   KEYS[2] queue   KEYS[3] waiters   KEYS[4] token
--
-- Returns { owner value or nil, remaining (ms), last token or '0', { value, ms waited, … } }

--#include "parts/constants.lua"
--#include "parts/queue.lua"
--#include "parts/time.lua"

local keys = { lock = KEYS[1], queue = KEYS[2], waiters = KEYS[3], token = KEYS[4] }

local NO_TOKEN = '0'

local now_ms = server_time()
local waiters = {}
for _, value in ipairs(redis.call('ZRANGE', keys.queue, FIRST, LAST)) do
  local _, since_ms, _, inbox =
    read_waiter(redis.call('HGET', keys.waiters, WAITER_PREFIX .. value))
  if inbox and is_in_future(redis.call('HGET', keys.waiters, INBOX_PREFIX .. inbox), now_ms) then
    table.insert(waiters, value)
    table.insert(waiters, now_ms - since_ms)
  end
end

local lock_value = redis.call('GET', keys.lock)
local remaining_ms = redis.call('PTTL', keys.lock)
local last_token = redis.call('GET', keys.token)
if not last_token then last_token = NO_TOKEN end
return { lock_value, remaining_ms, last_token, waiters }
