-- Reads the holder of a lock and its first live waiters, in order. Writes nothing.
--
-- KEYS[1] lock   KEYS[2] queue   KEYS[3] waiters   KEYS[4] token
--
-- Returns { owner value or nil, its SHA-1 or nil, remaining (ms), last token or '0',
--   number of waiters, { value, ms waited, … } for the first of them }

--#include "parts/constants.lua"
--#include "parts/queue.lua"
--#include "parts/parked.lua"
--#include "parts/time.lua"
--#include "parts/waiter.lua"

local keys = { lock = KEYS[1], queue = KEYS[2], waiters = KEYS[3], token = KEYS[4] }

local NO_TOKEN = '0'
local NONE = 0

-- Waiters of parked inboxes do not count.
local function count_waiters(listed_count)
  local waiter_count = count_members(keys, BY_TICKET)
  if waiter_count <= MAX_LOOKED_AT then return listed_count end
  for _, member in ipairs(members_of(keys, PARKED, MAX_LOOKED_AT)) do
    local _, inbox = read_member(PARKED, member)
    waiter_count = waiter_count - count_members(keys, family_of_inbox(inbox))
  end
  return waiter_count
end

local now_ms = server_time()
local waiters = {}
local listed_count = NONE
for _, member in ipairs(members_of(keys, BY_TICKET, MAX_LOOKED_AT)) do
  local _, value = read_member(BY_TICKET, member)
  local _, since_ms, _, inbox =
    read_waiter(redis.call('HGET', keys.waiters, WAITER_PREFIX .. value))
  if inbox and is_in_future(redis.call('HGET', keys.waiters, INBOX_PREFIX .. inbox), now_ms) then
    listed_count = listed_count + 1
    table.insert(waiters, value)
    table.insert(waiters, now_ms - since_ms)
  end
end

local lock_value = redis.call('GET', keys.lock)
local digest = false
if lock_value then digest = redis.sha1hex(lock_value) end
local remaining_ms = redis.call('PTTL', keys.lock)
local last_token = redis.call('GET', keys.token)
if not last_token then last_token = NO_TOKEN end
return { lock_value, digest, remaining_ms, last_token, count_waiters(listed_count), waiters }
