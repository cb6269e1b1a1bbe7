/**
 * Behaviours: lost, expired and renewed leases.
 *
 * @module
 */
import { assert, assertEquals, assertInstanceOf, assertRejects, assertThrows } from "@std/assert";
import { type DistributedLock, LeaseLostError } from "../../mod.ts";
import { behaviour, type Harness } from "./harness.ts";
import { aborted, block, within } from "./bounds.ts";
import { type Shown, untilShown, watchStalls } from "../processes/stalls.ts";
import { waitUntil } from "../servers/wait.ts";
import { ENDING_TTL_MS, RENEWED_TTL_MS, scaled } from "../time.ts";

/** The TTL of a lease that ends in any case. */
const SHORT_TTL_MS = scaled(400);
/** A client whose next renewal, which finds a loss, comes soon. */
const TOLD = { ttlMs: ENDING_TTL_MS };
/** One renewal in each third of a TTL: the last of them is in the second TTL. */
const RENEWALS = 3;

/** A lease on `a` outlasts its TTL, and keeps `b` out. */
async function outlastTtl(a: DistributedLock, b: DistributedLock): Promise<Shown> {
  using stalls = watchStalls();
  await using lease = await a.acquire("n");
  const startMs = performance.now();
  let [last, renewals, hasStalled] = [lease.remainingMs, 0, false];
  await waitUntil("the lease outlasts its TTL", () => {
    hasStalled = !lease.isHeld && stalls.longestMs > RENEWED_TTL_MS / 6;
    if (hasStalled) return true;
    lease.throwIfLost();
    const { remainingMs } = lease;
    if (remainingMs > last) renewals++;
    last = remainingMs;
    return renewals >= RENEWALS && performance.now() - startMs > RENEWED_TTL_MS;
  });
  if (hasStalled) return "stalled";
  assert(lease.remainingMs <= RENEWED_TTL_MS);
  assert(!lease.signal.aborted);
  assertEquals(await b.tryAcquire("n"), null);
  return "shown";
}

/** Registers the behaviours. */
export function lossSuite(harness: Harness): void {
  const ends = harness.ttlMs !== Infinity;

  behaviour(
    harness,
    "Lease.signal aborts when the lease is lost, and throwIfLost() and renew() throw its reason",
    async (arena) => {
      const lease = await (await arena.client(TOLD)).acquire("n");
      const { signal } = lease;
      await arena.lose(lease);
      await within("the signal aborts", aborted(signal));
      assertInstanceOf(signal.reason, LeaseLostError);
      assertEquals(signal.reason.lockName, "n");
      assertEquals(lease.remainingMs, 0);
      assert(assertThrows(() => lease.throwIfLost()) === signal.reason);
      assert((await lease.renew().then(() => null, (error) => error)) === signal.reason);
      assertEquals(await lease.release(), false);
    },
  );

  behaviour(
    harness,
    "Lease.signal is already aborted when it is read after the loss",
    async (arena) => {
      const lease = await (await arena.client(TOLD)).acquire("n");
      const { signal } = lease;
      await arena.lose(lease);
      await within("the loss is known", aborted(signal));
      assert(lease.signal.aborted);
      assertInstanceOf(lease.signal.reason, LeaseLostError);
    },
  );

  behaviour(harness, "Lease.signal does not abort when the lease is released", async (arena) => {
    const lock = await arena.client();
    const lease = await lock.acquire("n");
    const { signal } = lease;
    await lease.release();
    await (await lock.acquire("n")).release();
    assert(!signal.aborted);
    assert(!lease.signal.aborted);
  });

  behaviour(
    harness,
    "acquire() ends the lease after maxHoldMs and grants the lock to the next waiter",
    async (arena) => {
      const [a, b] = [await arena.client(), await arena.client()];
      const lease = await a.acquire("n", { maxHoldMs: 150 });
      assert(lease.remainingMs <= 150);
      const wait = b.acquire("n");
      await within("the signal aborts", aborted(lease.signal));
      assertInstanceOf(lease.signal.reason, LeaseLostError);
      assertEquals(lease.signal.reason.reason, "max-hold");
      await using next = await within("the next waiter is granted", wait);
      next.throwIfLost();
    },
  );

  behaviour(
    harness,
    "request() rejects with LeaseLostError when the lease was lost, unless its callback throws",
    async (arena) => {
      const lock = await arena.client(TOLD);
      const lost = await assertRejects(() =>
        lock.request("n", async (lease) => {
          const { signal } = lease;
          await arena.lose(lease);
          await within("the signal aborts", aborted(signal));
        }), LeaseLostError);
      assertEquals(lost.lockName, "n");
      const error = new Error("the callback's own");
      const thrown = await lock.request("n", async (lease) => {
        const { signal } = lease;
        await arena.lose(lease);
        await within("the signal aborts", aborted(signal));
        throw error;
      }).then(() => null, (thrown) => thrown);
      assert(thrown === error);
    },
  );

  behaviour(
    harness,
    "acquire() renews the lease automatically, again and again, beyond its TTL",
    async (arena) => {
      const [a, b] = [await arena.client({ ttlMs: RENEWED_TTL_MS }), await arena.client()];
      await untilShown(() => outlastTtl(a, b));
    },
    ends,
  );

  behaviour(
    harness,
    "Lease.throwIfLost() throws when the event loop was blocked for longer than the TTL",
    async (arena) => {
      const lock = await arena.client({ ttlMs: SHORT_TTL_MS });
      const lease = await lock.acquire("n");
      const { signal } = lease;
      block(SHORT_TTL_MS * 1.5);
      assertEquals(lease.remainingMs, 0);
      const error = assertThrows(() => lease.throwIfLost(), LeaseLostError);
      assert(signal.aborted);
      assert(lease.signal.reason === error);
    },
    ends,
  );

  behaviour(harness, "Lease.renew() renews the lease and rejects invalid TTLs", async (arena) => {
    const lease = await (await arena.client()).acquire("n");
    await within("the renewal is answered", lease.renew());
    lease.throwIfLost();
    await assertRejects(() => lease.renew(-1), RangeError);
    await assertRejects(() => lease.renew("1" as unknown as number), TypeError);
    assertEquals(await lease.release(), true);
  });

  behaviour(
    harness,
    "acquire() without autoRenew loses the lease when its TTL has passed",
    async (arena) => {
      const [a, b] = [await arena.client({ ttlMs: SHORT_TTL_MS }), await arena.client()];
      const lease = await a.acquire("n", { autoRenew: false });
      assert(lease.remainingMs <= SHORT_TTL_MS);
      const { signal } = lease;
      await using next = await within("the next waiter is granted", b.acquire("n"));
      assertEquals(lease.remainingMs, 0);
      next.throwIfLost();
      await within("the signal aborts", aborted(signal));
      assertEquals(signal.reason.reason, "expired");
    },
    harness.capabilities.endsBy === "ttl",
  );
}
