-- The server's clock.

local US_PER_SECOND = 1000000
local US_PER_MS = 1000

-- Now, in ms and in µs.
local function server_time()
  local seconds, micros = unpack(redis.call('TIME'))
  local now_us = seconds * US_PER_SECOND + micros
  return math.floor(now_us / US_PER_MS), now_us
end

-- Whether a stored time is still to come. False if none is stored.
local function is_in_future(stored_ms, now_ms)
  local time_ms = tonumber(stored_ms)
  return time_ms ~= nil and time_ms > now_ms
end
