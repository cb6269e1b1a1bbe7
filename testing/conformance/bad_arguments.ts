/**
 * Behaviours: invalid arguments are rejected with a typed error and have no effect.
 *
 * @module
 */
import { assert, assertEquals, assertRejects, assertStringIncludes } from "@std/assert";
import type { AcquireOptions, Lease, LockSnapshot, QueryOptions } from "../../mod.ts";
import { behaviour, type Harness } from "./harness.ts";
import { within } from "./bounds.ts";
import { waitUntil } from "../servers/wait.ts";

/** Longer than any of these tests, in ms. */
const WAIT_MS = 600_000;

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
  [{ label: "a\u009bb" }, RangeError],
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
    "acquire(), tryAcquire(), request() and query() reject unknown options; the error names ours",
    async (arena) => {
      const lock = await arena.client();
      for (const [unknown, ours] of UNKNOWN_OPTIONS) {
        const [name] = Object.keys(unknown);
        const calls = [() => lock.acquire("n", unknown), () => lock.tryAcquire("n", unknown)];
        if (name !== "ifAvailable" && name !== "steal") {
          calls.push(() => lock.request("n", unknown, (lease) => lease));
        }
        for (const call of calls) {
          const error = await assertRejects(call, TypeError);
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

  behaviour(
    harness,
    "acquire(), tryAcquire() and request() read each option once, also those of a prototype",
    async (arena) => {
      const lock = await arena.client();
      const { signal } = new AbortController();
      const values = {
        signal,
        waitMs: WAIT_MS,
        label: "call",
        autoRenew: true,
        maxHoldMs: WAIT_MS,
      };
      for (const method of ["acquire", "tryAcquire"] as const) {
        const lease = await lock[method]("n", readableOnce(values));
        const [holder] = (await lock.query("n")).holders;
        assertEquals(holder?.label ?? "call", "call");
        assertEquals(await lease!.release(), true);
      }
      const options = readableOnce({ ...values, ifAvailable: true });
      assertEquals(await lock.request("n", options, (lease) => lease?.name), "n");
      assertEquals(await arena.residue(), []);
    },
  );

  behaviour(
    harness,
    "acquire() ignores a change of its options while it waits, and calls onWait as their method",
    async (arena) => {
      const lock = await arena.client();
      const held = await lock.acquire("n");
      let waits: unknown;
      const options = {
        label: "before",
        maxHoldMs: WAIT_MS as unknown,
        onWait() {
          waits = this;
        },
      };
      const waiting = lock.acquire("n", options as AcquireOptions);
      await waitUntil("it waits", () => waits !== undefined);
      assert(waits === options);
      Object.assign(options, { label: "after\n", maxHoldMs: "abc", onWait: null, waitMs: 0 });
      await held.release();
      await using lease = await within("the waiter is granted", waiting);
      assert(lease.remainingMs > 0, `${lease.remainingMs} ms`);
      const [holder] = (await lock.query("n")).holders;
      assertEquals(holder?.label ?? "before", "before");
    },
  );

  behaviour(
    harness,
    "a call does not take a member of Object.prototype for an option",
    async (arena) => {
      const lock = await arena.client();
      await (await lock.acquire("n")).release();
      const polluted: Record<string, unknown> = Object.prototype as never;
      const calls: Promise<unknown>[] = [];
      try {
        Object.assign(polluted, { foo: 1, label: 5 });
        calls.push(lock.acquire("a"), lock.tryAcquire("b", {}), lock.query("c"));
        calls.push(lock.request("d", () => "done"));
      } finally {
        delete polluted.foo;
        delete polluted.label;
      }
      const [a, b, c, done] = await Promise.all(calls);
      assertEquals([(c as LockSnapshot).holders, done], [[], "done"]);
      for (const lease of [a, b]) assertEquals(await (lease as Lease).release(), true);
    },
  );
}

/** Options on a prototype, as getters that throw when they are read for the second time. */
function readableOnce<Options extends object>(values: Options): Options {
  const read = new Set<string>();
  const getters = Object.entries(values).map(([name, value]) => {
    const get = () => {
      if (read.has(name)) throw new Error(`${name} was read twice`);
      read.add(name);
      return value;
    };
    return [name, { get, enumerable: true }];
  });
  return Object.create(Object.defineProperties({}, Object.fromEntries(getters)));
}
