/**
 * Behaviours: a call that waits for its own caller is warned about, once per name, and nothing else is.
 * Two clients are two instances, except in memory.
 *
 * @module
 */
import { assert, assertEquals, assertRejects } from "@std/assert";
import { type DistributedLock, LockTimeoutError } from "../../mod.ts";
import { type Arena, behaviour, type Harness } from "./harness.ts";
import { within } from "./bounds.ts";
import { waitUntil } from "../servers/wait.ts";

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

  behaviour(
    harness,
    "acquire() and request() warn once if they wait for a lease that their own code uses, of any instance",
    async (arena) => {
      const [a, b] = [await listening(arena), await listening(arena)];
      const all = () => [a.warnings, b.warnings].flat();
      for (const [i, name] of ["acquire", "request", "waiting"].entries()) {
        await using _held = await a.lock.acquire(name); // `await using` is a use
        if (name === "waiting") {
          const abort = new AbortController();
          const waiting = b.lock.acquire(name, { signal: abort.signal }).catch(() => {});
          await waitUntil("it is suspect", () => all().length === i + 1);
          abort.abort();
          await waiting;
        } else {
          const options = { waitMs: SHORT_MS };
          await assertRejects(() => b.lock.request(name, options, () => {}), LockTimeoutError);
          await waitUntil("it is suspect", () => all().length === i + 1);
          await assertRejects(() => b.lock.acquire(name, options), LockTimeoutError);
        }
        assert(all()[i]!.includes(JSON.stringify(name)), all()[i]);
      }
      assertEquals(all().length, 3);
    },
  );

  behaviour(
    harness,
    "acquire() does not warn about a lease of code that runs beside it, or that is released in time",
    async (arena) => {
      const { lock, warnings } = await listening(arena);
      const [granted, end] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
      const other = async () => {
        await using lease = await lock.acquire("n");
        lease.throwIfLost();
        granted.resolve();
        await end.promise;
      };
      const beside = other();
      await granted.promise;
      await assertRejects(() => lock.acquire("n", { waitMs: SHORT_MS }), LockTimeoutError);
      await lock.query("n"); // a query that a suspicion asks for was asked before
      end.resolve();
      await beside;
      const lease = await lock.acquire("n");
      lease.throwIfLost();
      const next = lock.acquire("n");
      await lease.release();
      await (await within("the waiter is granted", next)).release();
      assertEquals(warnings, []);
    },
  );
}
