/**
 * Behaviours: invalid arguments are rejected with a typed error and have no effect.
 *
 * @module
 */
import { assertEquals, assertRejects } from "@std/assert";
import type { AcquireOptions } from "../../mod.ts";
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
}
