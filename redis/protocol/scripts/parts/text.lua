-- Text.

-- What follows the prefix; nil if the text does not begin with it.
local function strip_prefix(text, prefix)
  if string.sub(text, 1, #prefix) ~= prefix then return nil end
  return string.sub(text, #prefix + 1)
end
