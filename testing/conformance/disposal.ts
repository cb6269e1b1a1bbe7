/**
 * Behaviours: disposal of a client while locks are held or waited for.
 *
 * @module
 */
import { assert, assertEquals, assertRejects, assertThrows } from "@std/assert";
import { type DistributedLock, type Lease, LeaseLostError } from "../../mod.ts";
import { type Arena, behaviour, type Harness } from "./harness.ts";
import { within } from "./bounds.ts";
import { CONDITION_BOUND_MS, SHORT_DISPOSAL_MS } from "../time.ts";

/** Checks that a lease is over for its holder, because its client is disposed. */
async function assertDisposed(lease: Lease): Promise<void> {
  assert(lease.signal.aborted, "its signal should be aborted");
  assertEquals(lease.signal.reason.reason, "disposed");
  assertEquals([lease.isHeld, lease.remainingMs], [false, 0]);
  assertEquals(assertThrows(() => lease.throwIfLost(), LeaseLostError).reason, "disposed");
  const error = await assertRejects(() => lease.renew(), LeaseLostError);
  assertEquals(error.reason, "disposed");
}

/** A client that is disposed, and keeps its locks for as long as the test needs; and another one, connected. */
async function clients(arena: Arena): Promise<[DistributedLock, DistributedLock]> {
  const client = await arena.client({ disposeTimeoutMs: CONDITION_BOUND_MS });
  const other = await arena.client();
  await other.query("n");
  return [client, other];
}

/** Registers the behaviours. */
export function disposalSuite(harness: Harness): void {
  // Without processes all clients are one, which is disposed then.
  const { processes } = harness;
  const assertFree = async (other: DistributedLock, name = "n") => {
    if (!processes) return;
    await using next = await within("the lock is free", other.acquire(name));
    next.throwIfLost();
    assertEquals((await other.query(name)).waiterCount, 0);
  };

  behaviour(
    harness,
    "disposal ends a lease for its holder at once, and keeps the lock until its release",
    async (arena) => {
      const [client, other] = await clients(arena);
      const lease = await client.acquire("n");
      const aborted: unknown[] = [];
      lease.signal.addEventListener("abort", () => aborted.push(lease.signal.reason));
      const disposed = client[Symbol.asyncDispose]();
      assertEquals(aborted.length, 1, "the signal should abort before anything else happens");
      await assertDisposed(lease);
      if (processes) assertEquals(await other.tryAcquire("n"), null);
      assertEquals(await lease.release(), true);
      await within("disposal ends with the last release", disposed);
      await assertFree(other);
      assertEquals(await lease.release(), false);
      assert(lease.signal.aborted);
    },
  );

  behaviour(
    harness,
    "disposal keeps the lock until the callback of request() settles, and request() rejects",
    async (arena) => {
      const [client, other] = await clients(arena);
      const inside = Promise.withResolvers<Lease>();
      const gate = Promise.withResolvers<void>();
      const call = client.request("n", async (lease) => {
        inside.resolve(lease);
        await gate.promise;
        return "done";
      });
      call.catch(() => {});
      const lease = await inside.promise;
      const disposed = client[Symbol.asyncDispose]();
      await assertDisposed(lease);
      if (processes) assertEquals(await other.tryAcquire("n"), null);
      gate.resolve();
      const error = await assertRejects(() => call, LeaseLostError);
      assertEquals(error.reason, "disposed");
      await within("disposal ends with the last release", disposed);
      await assertFree(other);
    },
  );

  behaviour(
    harness,
    "request() keeps the callback's own error when its client is disposed meanwhile",
    async (arena) => {
      const client = await arena.client();
      const error = new Error("of the callback");
      const started = Promise.withResolvers<void>();
      const call = client.request("n", (lease) => {
        started.resolve();
        return new Promise<void>((_, reject) => {
          lease.signal.addEventListener("abort", () => reject(error));
        });
      });
      call.catch(() => {});
      await started.promise;
      const disposed = client[Symbol.asyncDispose]();
      assertEquals(await assertRejects(() => call), error);
      await within("disposal ends with the last release", disposed);
    },
  );

  behaviour(
    harness,
    "disposal rejects waiters at once with an AbortError, and none of them is granted the lock later",
    async (arena) => {
      const [client, other] = await clients(arena);
      const lease = await client.acquire("n");
      const waiting = Array.from({ length: 5 }, () => client.acquire("n"));
      const outcomes = Promise.allSettled(waiting);
      const disposed = client[Symbol.asyncDispose]();
      const names = (await within("they reject while the lock is kept", outcomes)).map((each) =>
        each.status === "rejected" ? each.reason.name : "granted"
      );
      assertEquals(names, Array.from({ length: 5 }, () => "AbortError"));
      assertEquals(await lease.release(), true);
      await within("disposal ends with the last release", disposed);
      await assertFree(other);
    },
  );

  behaviour(
    harness,
    "disposal in the tick of an acquire leaves no lock behind",
    async (arena) => {
      const other = await arena.client();
      // All at once: the disposal of a client that was granted the lock waits for its release.
      await Promise.all(Array.from({ length: 8 }, async (_, ticks) => {
        const name = `n-${ticks}`;
        const client = await arena.client({ disposeTimeoutMs: SHORT_DISPOSAL_MS });
        await client.query(name); // connects
        const acquiring = Promise.allSettled([client.acquire(name)]);
        for (let tick = 0; tick < ticks; tick++) await null;
        await within("it is disposed", client[Symbol.asyncDispose]());
        const [outcome] = await within("the call settles", acquiring);
        if (outcome.status === "rejected") assertEquals(outcome.reason.name, "AbortError");
        else assertEquals(outcome.value.signal.reason.reason, "disposed");
        await assertFree(other, name);
      }));
    },
    processes,
  );
}
