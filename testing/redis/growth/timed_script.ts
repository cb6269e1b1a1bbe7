/**
 * The lock scripts with the test's own clock, and with a counter of what they read.
 *
 * @module
 */
import type { Script } from "../../../redis/protocol/scripts.ts";

/** Hides the table `redis` behind one that tells the time of the test. */
function withClock(nowUs: number, onReply: string): string {
  const [seconds, micros] = [Math.floor(nowUs / 1e6), nowUs % 1e6];
  return `
local server = redis
local items = 0
local function count(reply)
  if type(reply) ~= 'table' then return 1 end
  local size = 0
  for _, item in ipairs(reply) do size = size + count(item) end
  return size
end
local function wrapped(run)
  return function(command, ...)
    local reply = run(command, ...)
    if command == 'TIME' then return { '${seconds}', '${micros}' } end
    ${onReply}
    return reply
  end
end
local redis = setmetatable(
  { call = wrapped(server.call), pcall = wrapped(server.pcall) }, { __index = server }
)`;
}

/** The script, executed at this time of the server's clock. */
export function scriptAt({ source }: Script, nowUs: number): string {
  return `${withClock(nowUs, "")}\n${source}`;
}

/** The same. Replies with the script's reply, and how many items its commands replied. */
export function countingScriptAt({ source }: Script, nowUs: number): string {
  const prelude = withClock(nowUs, "items = items + count(reply)");
  return `${prelude}\nlocal function script()\n${source}\nend\nreturn { script(), items }`;
}
