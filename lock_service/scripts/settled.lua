-- Finds the request that has got what a reservation is for. There is one at most, as later ones
-- replace it.
--
-- KEYS[1] marks: a hash, the marks of each subject   ARGV[1] subject
--
-- Returns the nonce of the request, or nil

--#include "../../redis/protocol/scripts/parts/time.lua"
--#include "parts/marks.lua"

local keys, subject = { marks = KEYS[1] }, ARGV[1]

local now_ms = server_time()
for _, mark in ipairs(read_marks(redis.call('HGET', keys.marks, subject), now_ms)) do
  if mark.state == SETTLED then return mark.nonce end
end
return nil
