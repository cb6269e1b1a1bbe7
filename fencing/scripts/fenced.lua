-- Compares a fencing token with the greatest one, and runs a command under it: one step.
--
-- KEYS[1] greatest token so far; the keys after it are those of the command
-- ARGV[1] token (decimal digits)   ARGV[2] 'raise', or 'check': the token is not remembered
-- ARGV[3] name of the command, if any; its arguments follow
--
-- Returns { DONE, reply } or { STALE, greatest token }

local greatest_token_key = KEYS[1]
local token, action, command, all_arguments = ARGV[1], ARGV[2], ARGV[3], ARGV

local DONE = 1
local STALE = 0
-- The index of the command in ARGV.
local COMMAND_INDEX = 3

local greatest_token = redis.call('GET', greatest_token_key)
-- Tokens are compared as text, because Lua's numbers are exact only up to 2^53.
if greatest_token then
  local is_shorter = #token < #greatest_token
  local is_less = #token == #greatest_token and token < greatest_token
  if is_shorter or is_less then return { STALE, greatest_token } end
end
-- The token is written first: if Redis refuses that (memory is full), the command must not run.
if action == 'raise' and token ~= greatest_token then
  redis.call('SET', greatest_token_key, token)
end
if not command then return { DONE } end
return { DONE, redis.call(unpack(all_arguments, COMMAND_INDEX)) }
