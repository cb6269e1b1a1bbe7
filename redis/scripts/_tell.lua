-- Sends a message to an inbox; 0 if the user may not. One that begins with '-' cannot be told.
local function tell(inbox, ...)
  if string.sub(inbox, 1, 1) == '-' then return 1 end
  local text = { KEYS[1], ... }
  for i, part in ipairs(text) do text[i] = tostring(part) end
  local reached = redis.pcall('PUBLISH', 'holdfast:inbox:' .. inbox, cjson.encode(text))
  return type(reached) == 'table' and 0 or 1
end
