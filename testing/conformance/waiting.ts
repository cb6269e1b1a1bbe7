/**
 * Behaviours: waiting for a lock, the order of waiters, aborts and disposal.
 *
 * @module
 */
import { assert, assertEquals, assertRejects } from "@std/assert";
import type { DistributedLock, Lease, WaitInfo } from "../../mod.ts";
import { behaviour, type Harness } from "./harness.ts";
import { within } from "./bounds.ts";
import { pause, waitUntil } from "../servers/wait.ts";
import { SHORT_DISPOSAL_MS } from "../time.ts";

/** Longer than the interval, in ms, at which any strategy asks again. */
const ASKED_AGAIN_MS = 1_200;
/** Longer than any of these tests, in ms. */
const LONG_WAIT_MS = 600_000;

/** Calls `acquire()`; resolves when the strategy has called `onWait`. */
async function queue(
  lock: DistributedLock,
  name: string,
  signal?: AbortSignal,
): Promise<{ lease: Promise<Lease> }> {
  let waits = false;
  const lease = lock.acquire(name, {
    onWait: () => void (waits = true),
    ...(signal === undefined ? {} : { signal }),
  });
  lease.catch(() => {});
  await waitUntil("the caller waits", () => waits);
  return { lease };
}

/** Registers the behaviours. */
export function waitingSuite(harness: Harness): void {
  behaviour(harness, "acquire() waits until the lock is released", async (arena) => {
    const [a, b] = [await arena.client(), await arena.client()];
    const first = await a.acquire("n");
    const second = await queue(b, "n");
    let isGranted = false;
    second.lease.then(() => isGranted = true, () => {});
    assertEquals(await b.tryAcquire("n"), null);
    assert(!isGranted);
    assertEquals(await first.release(), true);
    await using lease = await within("the waiter is granted", second.lease);
    lease.throwIfLost();
  });

  behaviour(
    harness,
    "acquire() serves waiters first come, first served, as far as promised",
    async (arena) => {
      const locks = await Promise.all(Array.from({ length: 3 }, () => arena.client()));
      const { fifo } = harness.capabilities;
      const first = await locks[0]!.acquire("n");
      const order: number[] = [];
      const served: Promise<void>[] = [];
      for (let i = 0; i < 12; i++) {
        const lock = locks[fifo === "global" ? i % locks.length : 0]!;
        const { lease } = await queue(lock, "n");
        served.push(lease.then(async (lease) => {
          order.push(i);
          await lease.release();
        }));
      }
      await first.release();
      await within("all are served", Promise.all(served));
      assertEquals(order, Array.from({ length: 12 }, (_, i) => i));
    },
    harness.capabilities.fifo !== "none",
  );

  behaviour(
    harness,
    "acquire() rejects with the reason of its signal, and the next waiter gets the lock",
    async (arena) => {
      const [a, b, c] = [await arena.client(), await arena.client(), await arena.client()];
      const first = await a.acquire("n");
      const abort = new AbortController();
      const second = await queue(b, "n", abort.signal);
      const third = await queue(c, "n");
      const reason = { why: "changed my mind" };
      abort.abort(reason);
      const thrown = await second.lease.then(() => null, (error) => error);
      assert(thrown === reason);
      await first.release();
      await using lease = await within("the next waiter is granted", third.lease);
      lease.throwIfLost();
    },
  );

  behaviour(
    harness,
    "acquire() rejects with TimeoutError when AbortSignal.timeout() fires",
    async (arena) => {
      const [a, b] = [await arena.client(), await arena.client()];
      await using _lease = await a.acquire("n");
      const thrown = await assertRejects(
        () => b.acquire("n", { signal: AbortSignal.timeout(100) }),
        DOMException,
      );
      assertEquals(thrown.name, "TimeoutError");
    },
  );

  behaviour(
    harness,
    "acquire(), tryAcquire() and request() reject at once when the signal has already aborted",
    async (arena) => {
      const lock = await arena.client();
      const reason = new Error("too late");
      const signal = AbortSignal.abort(reason);
      for (
        const take of [
          () => lock.acquire("n", { signal }),
          () => lock.tryAcquire("n", { signal }),
          () => lock.request("n", { signal }, () => {}),
        ]
      ) {
        assert((await take().then(() => null, (error) => error)) === reason);
      }
      assertEquals((await lock.query("n")).holders, []);
    },
  );

  behaviour(
    harness,
    "acquire(), tryAcquire() and request() reject when the signal aborts in the same tick, and the lock is free",
    async (arena) => {
      const lock = await arena.client();
      await (await lock.acquire("n")).release();
      const calls: ((signal: AbortSignal) => Promise<unknown>)[] = [
        (signal) => lock.acquire("n", { signal }),
        (signal) => lock.acquire("n", { signal, waitMs: LONG_WAIT_MS }),
        (signal) => lock.acquire("n", { signal, waitMs: 0 }),
        (signal) => lock.tryAcquire("n", { signal }),
        (signal) => lock.tryAcquire("n", { signal, waitMs: LONG_WAIT_MS }),
        (signal) => lock.request("n", { signal }, () => {}),
      ];
      for (const [i, call] of calls.entries()) {
        const abort = new AbortController();
        const reason = new Error(`too late ${i}`);
        const calling = call(abort.signal);
        abort.abort(reason);
        const thrown = await within("the call ends", calling).then(() => null, (error) => error);
        assert(thrown === reason, `call ${i}: ${thrown}`);
        await (await within("the lock is free", lock.acquire("n"))).release();
      }
    },
  );

  behaviour(harness, "acquire() ignores its signal after the grant", async (arena) => {
    const abort = new AbortController();
    await using lease = await (await arena.client()).acquire("n", { signal: abort.signal });
    abort.abort();
    lease.throwIfLost();
    assert(!lease.signal.aborted);
  });

  behaviour(harness, "acquire() rejects with the error that onWait throws", async (arena) => {
    const [a, b] = [await arena.client(), await arena.client()];
    const first = await a.acquire("n");
    const error = new Error("from onWait");
    const onWait = () => {
      throw error;
    };
    assert((await b.acquire("n", { onWait }).then(() => null, (thrown) => thrown)) === error);
    await first.release();
    await using next = await within("the lock is free", a.acquire("n"));
    next.throwIfLost();
  });

  behaviour(
    harness,
    "acquire() whose own onWait releases the lock is granted it, and one that aborts itself ends",
    async (arena) => {
      const lock = await arena.client();
      const held = await lock.acquire("n");
      const released = Promise.withResolvers<boolean>();
      const onWait = () => released.resolve(held.release());
      const next = await within("it is granted", lock.acquire("n", { onWait }));
      assertEquals(await released.promise, true);
      const abort = new AbortController();
      const aborted = lock.acquire("n", {
        signal: abort.signal,
        onWait: () => abort.abort(new Error("enough")),
      });
      await within("it ends", assertRejects(() => aborted, Error, "enough"));
      assertEquals(await next.release(), true);
      await waitUntil("nobody waits", async () => (await lock.query("n")).waiterCount === 0);
    },
  );

  behaviour(
    harness,
    "acquire() calls onWait when something has changed, and never twice with the same",
    async (arena) => {
      const lock = await arena.client();
      const held = await lock.acquire("n");
      const before = await queue(lock, "n");
      const infos: WaitInfo[] = [];
      const waiting = lock.acquire("n", { onWait: (info) => void infos.push(info) });
      await waitUntil("it waits", () => infos.length > 0);
      const { position, waiters } = infos[0]!;
      assertEquals([position, waiters], [2, 2]);
      // No condition: nothing is to happen, also when the strategy asks again.
      await pause(ASKED_AGAIN_MS);
      assertEquals(infos.length, 1, "nothing has changed");
      await held.release();
      await (await within("the waiter is granted", before.lease)).release();
      await (await within("the waiter is granted", waiting)).release();
      for (const [i, info] of infos.entries()) {
        const last = infos[i - 1];
        if (last === undefined) continue;
        assert(info.position !== last.position || info.waiters !== last.waiters, "the same twice");
        assert(info.position! <= last.position!, "a waiter never falls back");
      }
    },
    harness.capabilities.fifo !== "none",
  );

  behaviour(
    harness,
    "tryAcquire() calls onWait at most once, before it resolves with null, without a position",
    async (arena) => {
      const [a, b] = [await arena.client(), await arena.client()];
      const infos: WaitInfo[] = [];
      const onWait = (info: WaitInfo) => void infos.push(info);
      await (await b.tryAcquire("n", { onWait }))!.release();
      assertEquals(infos, []);
      await using _held = await a.acquire("n");
      const waiting = await queue(a, "n");
      assertEquals(await b.tryAcquire("n", { onWait }), null);
      assertEquals(infos.length, harness.knowsWaitersOfTry ? 1 : 0);
      if (harness.knowsWaitersOfTry) {
        assertEquals([infos[0]!.position, infos[0]!.waiters], [undefined, 1]);
      }
      infos.length = 0;
      assertEquals(await a.tryAcquire("n", { onWait }), null);
      const told = infos.map(({ position, waiters }) => [position, waiters]);
      assertEquals(told, [[undefined, 1]], "the waiters of its own instance are always known");
      await _held.release();
      await (await within("the waiter is granted", waiting.lease)).release();
    },
  );

  behaviour(
    harness,
    "acquire() leaves nothing behind when waiters abort at random",
    async (arena) => {
      const locks = [await arena.client(), await arena.client()];
      const first = await locks[0]!.acquire("n");
      const aborts: AbortController[] = [];
      const waits = Array.from({ length: 20 }, (_, i) => {
        const abort = new AbortController();
        aborts.push(abort);
        return locks[i % 2]!.acquire("n", { signal: abort.signal })
          .then((lease) => lease.release(), () => false);
      });
      for (const [i, abort] of aborts.entries()) if (i % 3 !== 0) abort.abort();
      await first.release();
      await within("all waits have ended", Promise.all(waits));
      await using last = await within("the lock is free", locks[1]!.acquire("n"));
      last.throwIfLost();
    },
  );

  behaviour(
    harness,
    "DistributedLock[Symbol.asyncDispose]() ends waits, releases leases and rejects later calls",
    async (arena) => {
      const options = { disposeTimeoutMs: SHORT_DISPOSAL_MS };
      const [a, b] = [await arena.client(options), await arena.client()];
      const lease = await a.acquire("n");
      const wait = await queue(a, "n");
      await within("disposal", a[Symbol.asyncDispose]());
      const thrown = await assertRejects(() => wait.lease, DOMException);
      assertEquals(thrown.name, "AbortError");
      assertEquals(lease.remainingMs, 0);
      assertEquals(lease.signal.reason.reason, "disposed");
      assertEquals(await lease.release(), false, "disposal has released the lock");
      for (const call of [() => a.acquire("n"), () => a.tryAcquire("n"), () => a.query("n")]) {
        assertEquals((await assertRejects(call, DOMException)).name, "InvalidStateError");
      }
      await a[Symbol.asyncDispose]();
      if (a === b) return;
      await using next = await b.tryAcquire("n");
      assert(next !== null);
    },
  );
}
