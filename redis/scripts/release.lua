-- Gives the lock back if the owner still has it.
-- KEYS[1] lock   ARGV[1] owner value
-- Returns 1 released, 0 gone, -1 another owner
local value = redis.call('GET', KEYS[1])
if value == ARGV[1] then return redis.call('DEL', KEYS[1]) end
return value and -1 or 0
