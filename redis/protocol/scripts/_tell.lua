-- Sends a message, lines with the lock's key at the end, to an inbox; 0 if the user may not. One that
-- begins with '-' cannot be told.
local function tell(inbox, message)
  if string.byte(inbox) == 45 then return 1 end
  local reached = redis.pcall('PUBLISH', 'holdfast:inbox:' .. inbox, message .. '\n' .. KEYS[1])
  return type(reached) == 'table' and 0 or 1
end
