/**
 * Behaviours: waits that `waitMs` bounds. Outages are tested per strategy.
 *
 * @module
 */
import { assert, assertEquals, assertInstanceOf, assertRejects } from "@std/assert";
import { type DistributedLock, type Lease, LockTimeoutError } from "../../mod.ts";
import { type Arena, behaviour, type Harness } from "./harness.ts";
import { within } from "./bounds.ts";
import { pause, waitUntil } from "../servers/wait.ts";
import { scaled } from "../time.ts";

/** A wait that ends in the test, after it has begun. */
const SHORT_MS = scaled(150);
/** A wait that never ends in the test: if its timer stayed, the test would find it. */
const LONG_MS = 600_000;
/** Timers of the runtime may fire early by less than this. */
const EARLY_MS = 2;

/** Opens a client. Its connection must not be part of a bounded wait. */
async function connected(arena: Arena, label?: string): Promise<DistributedLock> {
  const client = await arena.client(label === undefined ? {} : { label });
  await client.query("n");
  return client;
}

/** Calls `acquire()`; resolves when the strategy has called `onWait`. */
async function queued(lock: DistributedLock, waitMs?: number): Promise<{ lease: Promise<Lease> }> {
  let hasBegun = false;
  const begin = () => void (hasBegun = true);
  const lease = lock.acquire("n", { waitMs, onWait: begin });
  lease.then(begin, begin); // a late machine may first look when a bounded wait has ended
  await waitUntil("the caller waits", () => hasBegun);
  return { lease };
}

/** Registers the behaviours. */
export function boundedWaitsSuite(harness: Harness): void {
  behaviour(
    harness,
    "tryAcquire() with waitMs resolves with null when the time is over, and leaves the queue",
    async (arena) => {
      const [a, b] = [await connected(arena), await connected(arena)];
      await using _held = await a.acquire("n");
      const startMs = performance.now();
      assertEquals(await b.tryAcquire("n", { waitMs: SHORT_MS }), null);
      const tookMs = performance.now() - startMs;
      assert(tookMs >= SHORT_MS - EARLY_MS, `it took ${tookMs} ms`);
      await waitUntil("nobody waits", async () => (await a.query("n")).waiterCount === 0);
    },
  );

  behaviour(
    harness,
    "acquire() with waitMs rejects with a LockTimeoutError that names the lock, the time and the holder",
    async (arena) => {
      const [a, b] = [await connected(arena, "holder-7"), await connected(arena)];
      await using held = await a.acquire("n");
      const error = await assertRejects(
        () => b.acquire("n", { waitMs: SHORT_MS }),
        LockTimeoutError,
      );
      assertEquals([error.code, error.lockName], ["ERR_LOCK_TIMEOUT", "n"]);
      assert(error.waitedMs >= SHORT_MS - EARLY_MS, `it waited ${error.waitedMs} ms`);
      assertEquals(error.holderLabel, "holder-7");
      assert(error.message.includes('"n"') && error.message.includes('"holder-7"'));
      assert(!JSON.stringify([error.message, error]).includes(held.ownerId));
      await waitUntil("nobody waits", async () => (await a.query("n")).waiterCount === 0);
    },
  );

  behaviour(
    harness,
    "acquire() and tryAcquire() with waitMs get a lock that is or becomes free in time",
    async (arena) => {
      const [a, b] = [await connected(arena), await connected(arena)];
      for (const method of ["acquire", "tryAcquire"] as const) {
        await (await b[method]("n", { waitMs: LONG_MS }))!.release();
        await (await b[method]("n", { waitMs: 1 }))!.release();
        const held = await a.acquire("n");
        let waits = false;
        const options = { waitMs: LONG_MS, onWait: () => void (waits = true) };
        const waiting = b[method]("n", options);
        await waitUntil("it waits", () => waits);
        assertEquals(await held.release(), true);
        const lease = await within("the waiter is granted", waiting);
        lease!.throwIfLost();
        assertEquals(await lease!.release(), true);
      }
    },
  );

  behaviour(
    harness,
    "acquire() with waitMs leaves the order of the other waiters as it was",
    async (arena) => {
      const lock = await connected(arena);
      const held = await lock.acquire("n");
      const before = await queued(lock);
      const bounded = await queued(lock, SHORT_MS);
      const after = await queued(lock);
      const order: string[] = [];
      const served = [["before", before], ["after", after]] as const;
      const ends = served.map(async ([which, { lease }]) => {
        await using _lease = await lease;
        order.push(which);
      });
      await assertRejects(() => bounded.lease, LockTimeoutError);
      await held.release();
      await within("the others are served", Promise.all(ends));
      assertEquals(order, ["before", "after"]);
    },
    harness.capabilities.fifo !== "none",
  );

  behaviour(
    harness,
    "acquire() and tryAcquire() with waitMs 0 try once",
    async (arena) => {
      const [a, b] = [await connected(arena, "holder-7"), await connected(arena)];
      await (await b.acquire("n", { waitMs: 0 })).release();
      await (await b.tryAcquire("n", { waitMs: 0 }))!.release();
      await using _held = await a.acquire("n");
      assertEquals(await b.tryAcquire("n", { waitMs: 0 }), null);
      const error = await assertRejects(() => b.acquire("n", { waitMs: 0 }), LockTimeoutError);
      assertEquals(error.holderLabel, "holder-7");
    },
  );

  behaviour(
    harness,
    "acquire() and tryAcquire() with waitMs reject with the reason of a signal that aborts before",
    async (arena) => {
      const [a, b] = [await connected(arena), await connected(arena)];
      await using _held = await a.acquire("n");
      for (const method of ["acquire", "tryAcquire"] as const) {
        const abort = new AbortController();
        const { signal } = abort;
        const reason = new Error("changed my mind");
        const onWait = () => queueMicrotask(() => abort.abort(reason));
        const error = await b[method]("n", { waitMs: LONG_MS, signal, onWait }).catch((e) => e);
        assert(error === reason, String(error));
        const early = await b[method]("n", { waitMs: SHORT_MS, signal }).catch((e) => e);
        assert(early === reason, String(early));
      }
    },
  );

  behaviour(
    harness,
    "request() with waitMs never runs its callback when the time is over; with ifAvailable it passes null",
    async (arena) => {
      const [a, b] = [await connected(arena), await connected(arena)];
      const held = await a.acquire("n");
      let runs = 0;
      const callback = () => void runs++;
      await assertRejects(() => b.request("n", { waitMs: SHORT_MS }, callback), LockTimeoutError);
      assertEquals(runs, 0);
      const options = { waitMs: SHORT_MS, ifAvailable: true };
      assertEquals(await b.request("n", options, (lease) => lease), null);
      const patient = { waitMs: LONG_MS, ifAvailable: true };
      const waiting = b.request("n", patient, (lease) => lease?.name);
      assertEquals(await held.release(), true);
      assertEquals(await within("the waiter is granted", waiting), "n");
      const steal = b.request("n", { steal: true, waitMs: 1 }, callback);
      assertEquals((await assertRejects(() => steal, DOMException)).name, "NotSupportedError");
    },
  );

  behaviour(
    harness,
    "acquire() with waitMs rejects with an AbortError when its client is disposed",
    async (arena) => {
      const [a, b] = [await connected(arena), await connected(arena)];
      const held = await a.acquire("n");
      const { lease } = await queued(b, LONG_MS);
      const disposed = b[Symbol.asyncDispose]();
      assertEquals((await assertRejects(() => lease, DOMException)).name, "AbortError");
      await held.release();
      await within("disposal ends", disposed);
    },
  );

  behaviour(
    harness,
    "acquire() and tryAcquire() with waitMs lose no grant that comes at the end of the time",
    async (arena) => {
      const [a, b] = [await connected(arena), await connected(arena)];
      const outcomes = { granted: 0, late: 0 };
      const isOneSided = () => outcomes.granted === 0 || outcomes.late === 0;
      let handoffMs = 4;
      for (let round = 0; round < 10 || (round < 100 && isOneSided()); round++) {
        const held = await a.acquire("n");
        const waits = Array.from({ length: 6 }, async (_, i) => {
          const options = { waitMs: 16 + handoffMs + i };
          const call = i % 2 === 0
            ? b.tryAcquire("n", options)
            : b.acquire("n", options).catch((error) => {
              assertInstanceOf(error, LockTimeoutError);
              return null;
            });
          const lease = await call;
          outcomes[lease === null ? "late" : "granted"]++;
          await lease?.release();
        });
        // No condition: the release is to come at the moment when the waits end.
        await pause(16 + round % 10);
        await held.release();
        await within("all waits end", Promise.all(waits));
        await using last = await within("the lock is free", a.acquire("n"));
        last.throwIfLost();
        if (outcomes.granted === 0) handoffMs += 4; // it takes longer here
      }
      assert(!isOneSided(), JSON.stringify(outcomes));
    },
  );
}
