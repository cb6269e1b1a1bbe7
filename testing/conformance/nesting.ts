/**
 * Behaviours: a call that waits for its own caller is warned about, once per name, and nothing else is.
 *
 * @module
 */
import { assert, assertEquals, assertRejects } from "@std/assert";
import { type DistributedLock, LockTimeoutError } from "../../mod.ts";
import { type Arena, behaviour, type Harness } from "./harness.ts";
import { within } from "./bounds.ts";

/** Long enough to wait in the queue, in ms. */
const SHORT_MS = 50;

/** Opens a client, and collects its warnings. */
async function listening(arena: Arena): Promise<{ lock: DistributedLock; warnings: string[] }> {
  const warnings: string[] = [];
  const lock = await arena.client({ onWarning: (message) => void warnings.push(message) });
  await lock.query("n"); // a connection must not be part of a bounded wait
  return { lock, warnings };
}

/** Registers the behaviours. */
export function nestingSuite(harness: Harness): void {
  behaviour(
    harness,
    "request() and acquire() of a lock that the caller's own callback holds warn once per name",
    async (arena) => {
      const { lock, warnings } = await listening(arena);
      const options = { waitMs: SHORT_MS };
      const fails = (call: Promise<unknown>) => assertRejects(() => call, LockTimeoutError);
      await lock.request("a", async () => {
        await fails(lock.request("a", options, () => {}));
        await fails(lock.acquire("a", options));
        await lock.request("b", async () => {
          await fails(lock.acquire("a", options)); // of the outer callback
          await fails(lock.acquire("b", options));
        });
      });
      assertEquals(warnings.length, 2);
      for (const [i, name] of ["a", "b"].entries()) {
        assert(warnings[i]!.includes(JSON.stringify(name)), warnings[i]);
        assert(warnings[i]!.includes("request()"), warnings[i]);
      }
    },
  );

  behaviour(
    harness,
    "request() does not warn about a try, another name, a lease that is over or a callback that has ended",
    async (arena) => {
      const { lock, warnings } = await listening(arena);
      const late = Promise.withResolvers<void>();
      let after: Promise<unknown> | undefined;
      await lock.request("n", async (lease) => {
        assertEquals(await lock.tryAcquire("n"), null);
        assertEquals(await lock.tryAcquire("n", { waitMs: SHORT_MS }), null);
        assertEquals(await lock.request("n", { ifAvailable: true }, (inner) => inner), null);
        await assertRejects(() => lock.acquire("n", { waitMs: 0 }), LockTimeoutError);
        await lock.request("other", () => {});
        after = late.promise.then(() => lock.request("n", () => {}));
        await lease.release();
        await lock.request("n", () => {});
      });
      late.resolve();
      await within("the callback has ended", after!);
      assertEquals(warnings, []);
    },
  );

  behaviour(
    harness,
    "request() does not warn about callers that contend",
    async (arena) => {
      const { lock, warnings } = await listening(arena);
      // A release in the callback of one caller starts the callback of the next one.
      const inner = () => lock.request("inner", () => Promise.resolve());
      const calls = Array.from({ length: 20 }, (_, i) => {
        return i % 3 === 0 ? inner() : lock.request("outer", i % 3 === 1 ? inner : () => {});
      });
      await within("all are served", Promise.all(calls));
      assertEquals(warnings, []);
    },
  );
}
