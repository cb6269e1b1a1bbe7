-- The reservations of a principal. Each request that uses one leaves a mark on it. A reservation
-- counts once, however many marks it has, and ends with the last of them.

-- The states of a mark: its request is in progress, or has got what it reserved.
local OPEN = 'open'
local SETTLED = 'settled'
-- Ended reservations that one call removes at most.
local SWEPT_AT_ONCE = 64
-- The offset of a range.
local FROM_FIRST = 0

-- Reads the marks that have not ended.
local function read_marks(text, now_ms)
  local marks = {}
  if not text then return marks end
  for nonce, state, end_digits in string.gmatch(text, '(%S+) (%l+) (%d+)') do
    local end_ms = tonumber(end_digits)
    if end_ms > now_ms then
      table.insert(marks, { nonce = nonce, state = state, end_ms = end_ms })
    end
  end
  return marks
end

-- Stores the marks of a subject. Without any, its reservation is over.
local function write_marks(keys, subject, marks)
  if #marks == 0 then
    redis.call('ZREM', keys.reservations, subject)
    redis.call('HDEL', keys.marks, subject)
    return
  end
  local lines = {}
  local last_end_ms = marks[1].end_ms
  for _, mark in ipairs(marks) do
    local end_digits = string.format('%.0f', mark.end_ms)
    table.insert(lines, mark.nonce .. ' ' .. mark.state .. ' ' .. end_digits)
    last_end_ms = math.max(last_end_ms, mark.end_ms)
  end
  redis.call('ZADD', keys.reservations, last_end_ms, subject)
  redis.call('HSET', keys.marks, subject, table.concat(lines, '\n'))
end

-- Removes reservations that have ended, some in each call.
local function sweep(keys, now_ms)
  local ended = redis.call(
    'ZRANGEBYSCORE', keys.reservations, '-inf', now_ms, 'LIMIT', FROM_FIRST, SWEPT_AT_ONCE
  )
  for _, subject in ipairs(ended) do write_marks(keys, subject, {}) end
end
