/**
 * Behaviours: `list()`, the names of the locks.
 *
 * @module
 */
import { assert, assertEquals, assertThrows } from "@std/assert";
import type { ListableLock, ListOptions } from "../../mod.ts";
import { webLocks } from "../../web_locks/mod.ts";
import { behaviour, type Harness } from "./harness.ts";

/** With the characters that patterns, paths and files treat in their own ways. */
const NAMES = ["a/b:1", "a/b:2", "a*[x]?\\^-", "a\0\n", "%41", "..", "ä\u{1F512}", "\uFFFF"];

async function list(lock: ListableLock, options?: ListOptions): Promise<string[]> {
  const names = new Set<string>();
  for await (const name of lock.list(options)) names.add(name);
  return [...names].toSorted();
}

/** Registers the behaviours. */
export function listSuite(harness: Harness): void {
  behaviour(
    harness,
    "list() names each lock that is held, by any client, and query() of webLocks() shows them",
    async (arena) => {
      const [a, b] = [await arena.client() as ListableLock, await arena.client() as ListableLock];
      assertEquals(await list(a), []);
      const leases = await Promise.all(NAMES.map((name) => a.acquire(name)));
      assertEquals(await list(b), NAMES.toSorted());
      const { held } = await webLocks(b).query();
      assertEquals(held.map(({ name }) => name).toSorted(), NAMES.toSorted());
      for (const lease of leases) await lease.release();
      assertEquals((await webLocks(b).query()).held, []);
    },
    harness.capabilities.list,
  );

  behaviour(
    harness,
    "list() with a prefix takes it literally, and may be stopped early",
    async (arena) => {
      const lock = await arena.client() as ListableLock;
      const leases = await Promise.all(NAMES.map((name) => lock.acquire(name)));
      assertEquals(await list(lock, { prefix: "a/b:" }), ["a/b:1", "a/b:2"]);
      assertEquals(await list(lock, { prefix: "a*" }), ["a*[x]?\\^-"]);
      assertEquals(await list(lock, { prefix: "a*[x]?\\^-" }), ["a*[x]?\\^-"]);
      assertEquals(await list(lock, { prefix: "b" }), []);
      for await (const name of lock.list()) {
        assert(NAMES.includes(name));
        break;
      }
      for (const lease of leases) await lease.release();
    },
    harness.capabilities.list,
  );

  behaviour(
    harness,
    "list() throws when an option is bad, or after disposal",
    async (arena) => {
      const lock = await arena.client() as ListableLock;
      for (const bad of [{ prefix: 7 }, { prefx: "a" }, null, "a"]) {
        assertThrows(() => lock.list(bad as ListOptions), TypeError);
      }
      await lock[Symbol.asyncDispose]();
      assertEquals(assertThrows(() => lock.list(), DOMException).name, "InvalidStateError");
    },
    harness.capabilities.list,
  );
}
