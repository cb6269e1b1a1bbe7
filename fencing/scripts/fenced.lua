-- Runs a command unless a later lease has been here: compares, remembers and writes in one step.
--
-- KEYS[1] greatest token so far; the other keys are those that the command touches
-- ARGV[1] token (decimal digits)   ARGV[2] a command, its arguments follow; may be left out
--
-- Returns { DONE, reply } or { STALE, greatest token }

local greatest_token_key = KEYS[1]
local token, command, all_arguments = ARGV[1], ARGV[2], ARGV

local DONE = 1
local STALE = 0
-- The place of the command in the arguments.
local COMMAND_INDEX = 2

local greatest_token = redis.call('GET', greatest_token_key)
-- Tokens are compared as text: Lua's numbers are exact up to 2^53 only.
if greatest_token then
  local is_shorter = #token < #greatest_token
  local is_less = #token == #greatest_token and token < greatest_token
  if is_shorter or is_less then return { STALE, greatest_token } end
end
-- The token is written first: if memory is full, Redis refuses it, and the command must not run.
if token ~= greatest_token then redis.call('SET', greatest_token_key, token) end
if not command then return { DONE } end
return { DONE, redis.call(unpack(all_arguments, COMMAND_INDEX)) }
