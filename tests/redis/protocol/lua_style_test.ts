/**
 * The Lua sources keep the house rules. Needs no server: the gate runs this file.
 */
import { assert, assertEquals } from "@std/assert";
import { dirname } from "node:path";
import { definedIn, headerProblems, luaProblems } from "../../../testing/redis/lua_style.ts";
import { includesOf, SCRIPT_FOLDERS } from "../../../tools/lua_source.ts";

const ROOT = new URL("../../../", import.meta.url);
const PARTS = ["redis/protocol/scripts/parts"];
const MAX_LINES = 120;
const NONE = { includedNames: new Set<string>() };

function read(path: string): string {
  return Deno.readTextFileSync(new URL(path, ROOT));
}

function luaFilesIn(folder: string): string[] {
  const names = [...Deno.readDirSync(new URL(`${folder}/`, ROOT))].map(({ name }) => name);
  return names.filter((name) => name.endsWith(".lua")).map((name) => `${folder}/${name}`).sort();
}

const SCRIPTS = SCRIPT_FOLDERS.flatMap(luaFilesIn);
const ALL = [...SCRIPTS, ...PARTS.flatMap(luaFilesIn)];

for (const path of ALL) {
  const isPart = PARTS.includes(dirname(path));

  Deno.test(`${path} gives names to its numbers and inputs, and uses only names that it defines or includes`, () => {
    const included = includesOf(path).flatMap((part) => [...definedIn(read(part))]);
    assertEquals(luaProblems(read(path), { includedNames: new Set(included), isPart }), []);
  });

  Deno.test(`${path} has a complete header and is short`, () => {
    const source = read(path);
    assert(/^-- \w/.test(source), "it begins with a comment");
    if (!isPart) assertEquals(headerProblems(source), []);
    const lines = source.trimEnd().split("\n");
    assert(lines.length <= MAX_LINES, `${lines.length} lines`);
    assertEquals(lines.filter((line) => line.length > 100), []);
  });
}

Deno.test("Lua scripts pass only declared keys to commands", () => {
  const keyless = ["TIME", "PUBLISH", "PUBSUB"];
  for (const path of ALL.filter((path) => !path.startsWith("fencing/"))) {
    for (const [call, command, key] of read(path).matchAll(/call\(\s*'(\w+)'(?:,\s*([\w.]+))?/g)) {
      if (!keyless.includes(command!)) {
        assert(/^(keys\.\w+|\w+_key)$/.test(key ?? ""), `${path}: ${call}`);
      }
    }
  }
});

Deno.test("luaProblems() reports each broken rule", () => {
  const bad = {
    "free ARGV[1]": "if ARGV[1] then return end",
    "free KEYS[1]": "local function f_name()\n  local key = KEYS[1]\nend",
    "ARGV[1] is read twice": "local owner_value = ARGV[1]\nlocal again = ARGV[1]",
    "naked 5000": "local life_ms = 5000",
    "naked 2": "return { 2 }",
    "naked 1": "return { 1, now_ms }",
    "naked 0": "local notified = 0",
    "naked '0'": "local function f_name(flag) return flag == '0' end",
    "one letter: x": "local x = nil",
    "one letter: h": "local holder = keys.h",
    "free name inbox": "local function tell_all(message) return inbox .. message end",
    "free name value":
      "local function one_step(value)\n  return value\nend\nlocal function other_step()\n  return value\nend",
    "free name GRANTED": "return { GRANTED }",
    "and/or outside a condition": "local left_ms = value and other_ms or NO_KEY_MS",
  };
  for (const [problem, source] of Object.entries(bad)) {
    const found = luaProblems(source, { ...NONE, isPart: false });
    assert(found.some((line) => line.endsWith(problem)), `${problem}: found ${found.join(", ")}`);
  }
  const part = luaProblems("local owner_value = ARGV[1]", { ...NONE, isPart: true });
  assertEquals(part, ["1: free ARGV[1]"]);
});

Deno.test("luaProblems() accepts plain arithmetic, indexes and constants", () => {
  const good = `local MAX_MS = 5000
local NO_KEY_MS = -2
local NO_TOKEN = '0'
local names = { lock = KEYS[1] }
local name_count = 0
for index = 1, #names do
  if names[index] == 0 or names[1] > 1 then name_count = name_count + 1 end
end
return { MAX_MS, NO_KEY_MS, NO_TOKEN, string.sub(names.lock, 1, -1 - 1) }`;
  const problems = luaProblems(good.replace(", -1 - 1", ", name_count - 1"), {
    ...NONE,
    isPart: false,
  });
  assertEquals(problems, []);
});

Deno.test("headerProblems() compares a header with the code", () => {
  const code = "local key, value = KEYS[1], ARGV[2]";
  assertEquals(headerProblems(`-- KEYS[1] lock   ARGV[2] value\n-- Returns nothing\n${code}`), []);
  assertEquals(headerProblems(`-- KEYS[1] lock\n-- Returns nothing\n${code}`).length, 1);
  assertEquals(headerProblems(`-- KEYS[1] KEYS[2] ARGV[2]\n-- Returns nothing\n${code}`).length, 1);
  assertEquals(headerProblems(`-- KEYS[1] lock   ARGV[2] value\n${code}`).length, 1);
});
