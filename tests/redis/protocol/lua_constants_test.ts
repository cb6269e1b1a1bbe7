/**
 * Constants with the same name are equal in Lua and TypeScript. Needs no server: the gate runs this.
 */
import { assert, assertEquals } from "@std/assert";
import * as fencing from "../../../fencing/redis.ts";
import * as keys from "../../../redis/protocol/keys.ts";
import * as messages from "../../../redis/protocol/messages.ts";
import * as wire from "../../../redis/protocol/wire.ts";
import { nextAskDelayMs } from "../../../redis/waiting/waiting_room.ts";
import * as wireNames from "../../../testing/redis/wire_names.ts";
import { constantsOf, partsOf, readScripts } from "../../../tools/lua_source.ts";

type Constants = Record<string, unknown>;

/** Constants that no TypeScript code needs. */
const ONLY_IN_LUA = new Set([
  "BY_INBOX",
  "BY_TICKET",
  "COMMAND_INDEX",
  "CONFIRMED",
  "FIRST_LOOK",
  "FIRST_POSITION",
  "FIRST_TWO",
  "HALF",
  "HOLDER",
  "INBOX_LEASE_MS",
  "LISTENS",
  "LISTENS_NO_MORE",
  "MARKER_LENGTH",
  "MARKER_PATTERN",
  "MAX_LOOKED_AT",
  "MAX_SWEPT_INBOXES",
  "MEMBERS_OF_FIRST_WAITER",
  "MUTE_INBOX_PREFIX",
  "NEXT",
  "NOBODY",
  "NONE",
  "NOT_NOTIFIED",
  "NO_HOLDERS",
  "NO_INBOX",
  "NO_KEY_MS",
  "NO_LIMIT",
  "NO_LOOK",
  "NO_OFFSET",
  "NO_SCORE",
  "NO_TICKET",
  "NO_TIME_MS",
  "NO_TOKEN",
  "NO_WORDS",
  "ONE",
  "PARKED",
  "PARKED_MS",
  "STALE",
  "SWEEP_EVERY_TICKETS",
  "SWEPT_PER_GRANT",
  "TOMBSTONE",
  "UNHEARD",
  "UNHEARD_CLAIM_MS",
  "US_PER_MS",
  "US_PER_SECOND",
  "WAITS_ALONE",
]);

/** Constants that no script needs: it gets their values as arguments. */
const ONLY_IN_TYPESCRIPT = new Set(["ASK_LIFE_MS", "FREE", "SCAN_START", "TOMBSTONE_MS"]);

/** The constants of all scripts in a folder, and of their parts. */
function luaConstants(folder: string): Map<string, unknown> {
  const paths = readScripts(folder).flatMap(({ path }) => [...partsOf(path), path]);
  const constants = new Map<string, unknown>();
  for (const path of new Set(paths)) {
    for (const [name, text] of constantsOf(path)) {
      const value = text.startsWith("'") ? text.slice(1, -1) : Number(text);
      assert(!constants.has(name), `${path}: ${name} is defined in another file, too`);
      constants.set(name, value);
    }
  }
  return constants;
}

/** The constants that the modules export. */
function typeScriptConstants(...modules: Constants[]): Map<string, unknown> {
  return new Map(
    modules.flatMap((module) =>
      Object.entries(module).filter(([name]) => /^[A-Z0-9_]+$/.test(name))
    ),
  );
}

function compare(lua: Map<string, unknown>, typeScript: Map<string, unknown>): void {
  for (const [name, value] of lua) {
    if (typeScript.has(name)) assertEquals(value, typeScript.get(name), name);
    else assert(ONLY_IN_LUA.has(name), `TypeScript has no ${name}: is it only for Lua?`);
  }
}

Deno.test("Constants of the lock scripts equal those of TypeScript with the same name", () => {
  const lua = luaConstants("redis/protocol/scripts");
  const modules = [keys, messages, wire, wireNames];
  compare(lua, typeScriptConstants(...modules));
});

Deno.test("Constants of the fencing script equal those of TypeScript with the same name", () => {
  compare(luaConstants("fencing/scripts"), typeScriptConstants(fencing));
});

Deno.test("Lua defines every reply code, message and stored name of TypeScript", () => {
  const lua = luaConstants("redis/protocol/scripts");
  for (const name of typeScriptConstants(messages, wire, wireNames).keys()) {
    assert(lua.has(name) !== ONLY_IN_TYPESCRIPT.has(name), name);
  }
});

Deno.test("ONLY_IN_LUA lists only constants that Lua defines", () => {
  const lua = new Set([
    ...luaConstants("redis/protocol/scripts").keys(),
    ...luaConstants("fencing/scripts").keys(),
  ]);
  assertEquals([...ONLY_IN_LUA].filter((name) => !lua.has(name)), []);
});

Deno.test("INBOX_LEASE_MS outlives two lost heartbeats", () => {
  const waiting = { position: Infinity, leftMs: -1, holderIsOurs: true };
  const inbox = { listens: true, isMute: false };
  const heartbeatMs = nextAskDelayMs(waiting, inbox, wire.MAX_CLAIM_MS, 1);
  const leaseMs = Number(luaConstants("redis/protocol/scripts").get("INBOX_LEASE_MS"));
  assert(3 * heartbeatMs <= leaseMs, `${heartbeatMs} ms, ${leaseMs} ms`);
});
