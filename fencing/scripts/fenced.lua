-- Runs a command unless a later lease has been here: compares, remembers and writes in one step.
-- KEYS[1] greatest token so far   KEYS[2] and more: what the command touches
-- ARGV[1] token (decimal digits)   ARGV[2] and more: a command and its arguments; may be left out
-- Returns { 1, reply } or { 0, greatest token }
local seen = redis.call('GET', KEYS[1]) or ''
local token = ARGV[1]
-- As text: Lua's numbers end at 2^53.
if #token < #seen or #token == #seen and token < seen then return { 0, seen } end
-- First, as memory pressure can refuse it: a command must not be done without it.
if token ~= seen then redis.call('SET', KEYS[1], token) end
if not ARGV[2] then return { 1 } end
return { 1, redis.call(unpack(ARGV, 2)) }
