/**
 * Behaviours: invalid arguments are rejected with a typed error and have no effect.
 *
 * @module
 */
import { assertEquals, assertRejects, assertStringIncludes } from "@std/assert";
import type { AcquireOptions, QueryOptions } from "../../mod.ts";
import { behaviour, type Harness } from "./harness.ts";

const BAD_NAMES: [unknown, typeof TypeError | typeof RangeError][] = [
  [undefined, TypeError],
  [null, TypeError],
  [42, TypeError],
  [Symbol("n"), TypeError],
  ["", RangeError],
  ["x".repeat(1_001), RangeError],
  ["\ud800", TypeError],
  ["a\udc00b", TypeError],
];

const BAD_OPTIONS: [unknown, typeof TypeError | typeof RangeError][] = [
  [null, TypeError],
  ["fast", TypeError],
  [{ signal: {} }, TypeError],
  [{ autoRenew: 1 }, TypeError],
  [{ maxHoldMs: "1" }, TypeError],
  [{ maxHoldMs: 0 }, RangeError],
  [{ maxHoldMs: 1.5 }, RangeError],
  [{ maxHoldMs: NaN }, RangeError],
  [{ maxHoldMs: Infinity }, RangeError],
  [{ onWait: "call me" }, TypeError],
  [{ waitMs: "5" }, TypeError],
  [{ waitMs: -1 }, RangeError],
  [{ waitMs: 0.5 }, RangeError],
  [{ mode: "both" }, TypeError],
  [{ limit: "3" }, TypeError],
  [{ limit: 0 }, RangeError],
  [{ limit: 10_001 }, RangeError],
  [{ mode: "shared", limit: 1.5 }, RangeError],
  [{ mode: "exclusive", limit: 2 }, TypeError],
  [{ label: 7 }, TypeError],
  [{ label: "" }, RangeError],
  [{ label: "a\nb" }, RangeError],
];

/** Options that no call has, or not this one, and what the error must name. */
const UNKNOWN_OPTIONS: [options: object, names: string][] = [
  [{ timeout: 5_000 }, "waitMs"],
  [{ acquireTimeout: 5_000 }, "waitMs"],
  [{ blocking_timeout: 5 }, "waitMs"],
  [{ retryCount: 3 }, "waitMs"],
  [{ retries: { retries: 3 } }, "waitMs"],
  [{ retryDelay: 100 }, "waitMs"],
  [{ blocking: false }, "tryAcquire()"],
  [{ ttl: 5_000 }, "ttlMs"],
  [{ lockTimeout: 5_000 }, "ttlMs"],
  [{ expires: 5_000 }, "ttlMs"],
  [{ stale: 5_000 }, "ttlMs"],
  [{ refreshInterval: 5_000 }, "autoRenew"],
  [{ permits: 3 }, "limit"],
  [{ driftFactor: 0.01 }, "drift"],
  [{ ifAvailable: true }, "tryAcquire()"],
  [{ steal: true }, "request()"],
  [{ onwait: () => {} }, "onWait"],
  [{ constructor: 1 }, "signal"],
];

/** Registers the behaviours. */
export function argumentsSuite(harness: Harness): void {
  behaviour(
    harness,
    "acquire(), tryAcquire(), request() and query() reject an invalid name and leave nothing behind",
    async (arena) => {
      const lock = await arena.client();
      for (const [bad, type] of BAD_NAMES) {
        const name = bad as string;
        await assertRejects(() => lock.acquire(name), type);
        await assertRejects(() => lock.tryAcquire(name), type);
        await assertRejects(() => lock.request(name, () => {}), type);
        await assertRejects(() => lock.query(name), type);
      }
      assertEquals(await arena.residue(), []);
    },
  );

  behaviour(
    harness,
    "acquire(), tryAcquire() and request() reject invalid options and leave nothing behind",
    async (arena) => {
      const lock = await arena.client();
      for (const [bad, type] of BAD_OPTIONS) {
        const options = bad as AcquireOptions;
        await assertRejects(() => lock.acquire("n", options), type);
        await assertRejects(() => lock.tryAcquire("n", options), type);
        if (bad !== null) await assertRejects(() => lock.request("n", options, () => {}), type);
      }
      assertEquals(await arena.residue(), []);
    },
  );

  behaviour(
    harness,
    "acquire(), tryAcquire() and query() reject unknown options; the error names ours",
    async (arena) => {
      const lock = await arena.client();
      for (const [unknown, ours] of UNKNOWN_OPTIONS) {
        const [name] = Object.keys(unknown);
        for (const method of ["acquire", "tryAcquire"] as const) {
          const error = await assertRejects(() => lock[method]("n", unknown), TypeError);
          assertStringIncludes(error.message, `'${name}'`);
          assertStringIncludes(error.message, ours);
        }
      }
      const typo = { maxwaiters: 1 } as QueryOptions;
      const error = await assertRejects(() => lock.query("n", typo), TypeError);
      assertStringIncludes(error.message, "maxWaiters");
      // An option that is `undefined` counts as left out.
      const none = { timeout: undefined } as AcquireOptions;
      assertEquals(await (await lock.acquire("n", none)).release(), true);
      assertEquals(await arena.residue(), []);
    },
  );

  behaviour(harness, "request() ignores unknown options, as Web Locks does", async (arena) => {
    const lock = await arena.client();
    const options = { timeout: 5_000, mode: "exclusive" } as const;
    assertEquals(await lock.request("n", options, (lease) => lease.name), "n");
    const ifAvailable = { ...options, ifAvailable: true };
    assertEquals(await lock.request("n", ifAvailable, (lease) => lease?.name), "n");
    if (!harness.capabilities.steal) return;
    assertEquals(await lock.request("n", { ...options, steal: true }, ({ name }) => name), "n");
  });
}
