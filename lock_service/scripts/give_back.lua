-- Removes the mark of a request. The reservation ends unless other requests share it.
--
-- KEYS[1] reservations: a sorted set, subjects by the end of their last mark (ms)
-- KEYS[2] marks: a hash, the marks of each subject
-- ARGV[1] subject   ARGV[2] nonce of the request
--
-- Returns the number of marks that are left

--#include "../../redis/protocol/scripts/parts/time.lua"
--#include "parts/marks.lua"

local keys = { reservations = KEYS[1], marks = KEYS[2] }
local subject, nonce = ARGV[1], ARGV[2]

local now_ms = server_time()
local others = {}
for _, mark in ipairs(read_marks(redis.call('HGET', keys.marks, subject), now_ms)) do
  if mark.nonce ~= nonce then table.insert(others, mark) end
end
write_marks(keys, subject, others)
return #others
