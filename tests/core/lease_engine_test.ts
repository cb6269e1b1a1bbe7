import { assert, assertEquals, assertRejects, assertThrows } from "@std/assert";
import { instant } from "../../core/time/clock.ts";
import type { Lease } from "../../core/contract/distributed_lock.ts";
import { LeaseLostError } from "../../core/contract/errors.ts";
import { readTable } from "../../core/contract/options.ts";
import {
  Background,
  Lifetime,
  STRATEGY_OPTIONS,
  type StrategyOptions,
} from "../../core/lease/lifetime.ts";
import type { ReleaseAnswer } from "../../core/lease/grant.ts";
import { LeaseEngine } from "../../core/lease/lease_engine.ts";
import { FakeClock, settle } from "../../testing/core/fake_clock.ts";
import { openLease } from "../../testing/core/fake_service.ts";

/** Opens leases that start `staggerMs` apart, and records when each is renewed. */
async function openStaggered(count: number, staggerMs: number) {
  const clock = new FakeClock();
  const engine = new LeaseEngine("test", clock);
  const renewedAtMs: number[] = [];
  const leases: Lease[] = [];
  for (let i = 0; i < count; i++) {
    leases.push(
      engine.open({
        name: `n${i}`,
        ownerId: `me${i}`,
        fencingToken: BigInt(i),
        sent: instant(clock),
        ttlMs: 9_000,
        validMs: 9_000,
        autoRenew: true,
      }, {
        renew: () => {
          renewedAtMs.push(clock.now());
          return Promise.resolve({ state: "held", validMs: 9_000 });
        },
        release: () => Promise.resolve({ state: "released" }),
      })!,
    );
    await clock.pass(staggerMs);
  }
  return { clock, engine, leases, renewedAtMs };
}

Deno.test("LeaseEngine uses one timer for all leases, and none when there is no lease", async () => {
  const { clock, engine, leases } = await openStaggered(50, 1);
  assertEquals(clock.timers, 1);
  await Promise.all(leases.map((lease) => lease.release()));
  assertEquals(clock.held, 0);
  await engine.close(1_000);
  assertEquals(clock.timers, 0);
});

Deno.test("LeaseEngine renews leases together when their renewals are due within 100 ms", async () => {
  const { clock, renewedAtMs, engine } = await openStaggered(10, 9);
  await clock.pass(3_000);
  assertEquals(renewedAtMs.length, 10);
  assertEquals(new Set(renewedAtMs).size, 1);
  await engine.close(0);
});

Deno.test("LeaseEngine renews at a steady rate when leases live long", async () => {
  const { clock, renewedAtMs, engine } = await openStaggered(2, 50);
  await clock.pass(90_000);
  assert(renewedAtMs.length >= 2 * 29 && renewedAtMs.length <= 2 * 34, `${renewedAtMs.length}`);
  await engine.close(0);
});

Deno.test("LeaseEngine.close() releases leases and waits for clean-ups, but not beyond its timeout", async () => {
  const { clock, engine, leases } = await openStaggered(3, 1);
  let cleaned = false;
  engine.background.run(() =>
    new Promise<void>((resolve) => clock.schedule(() => (cleaned = true, resolve()), 700))
  );
  let closed = false;
  const closing = engine.close(1_000).then(() => closed = true);
  await clock.pass(699); // holders keep their locks for 500 ms of it
  assert(!closed);
  await clock.pass(1);
  assert(closed && cleaned);
  await closing;
  for (const lease of leases) assertEquals(lease.remainingMs, 0);

  const stuck = await openStaggered(1, 1);
  stuck.engine.background.run(() => new Promise(() => {}));
  const stopped = stuck.engine.close(1_000);
  await stuck.clock.pass(1_000);
  await stopped;
  assert(stuck.engine.stopped.aborted);
});

Deno.test("LeaseEngine.close() waits for a release that is under way and for its retries", async () => {
  const { lease, clock, releases, engine } = openLease();
  const released = lease.release();
  await settle();
  releases[0]!.fail(new Error("connection lost"));
  let isClosed = false;
  const closed = engine.close(2_000).then(() => isClosed = true);
  await settle();
  assert(!isClosed);
  await clock.pass(300);
  assertEquals(releases.length, 2);
  releases[1]!.answer({ state: "released" });
  await settle();
  assert(isClosed);
  assertEquals(await released, true);
  await closed;
  assertEquals(clock.timers, 0);
});

Deno.test("Background.idle() leaves the event loop to others while a call is running", async () => {
  const background = new Background();
  background.enter();
  let isIdle = false;
  const idle = background.idle().then(() => isIdle = true);
  await new Promise((resolve) => setImmediate(resolve));
  assert(!isIdle);
  background.exit();
  await idle;
});

Deno.test("Lifetime.end() closes once, and its later calls wait for the same end", async () => {
  const options: StrategyOptions = {};
  const lifetime = new Lifetime(readTable("new MemoryLock()", options, STRATEGY_OPTIONS));
  lifetime.throwIfEnded();
  const closing = Promise.withResolvers<void>();
  let [closes, ends] = [0, 0];
  const close = () => {
    closes++;
    return closing.promise;
  };
  const ended = [1, 2].map(() => lifetime.end(close).then(() => ends++));
  await settle();
  assertEquals([closes, ends, lifetime.ended.aborted], [1, 0, true]);
  assertThrows(() => lifetime.throwIfEnded(), DOMException);
  closing.reject(new Error("disposal never rejects"));
  await Promise.all(ended);
});

Deno.test("LeaseEngine adds no listener for each lease to the signal that all leases share", async () => {
  const clock = new FakeClock();
  const engine = new LeaseEngine("test", clock);
  let listeners = 0;
  const add = engine.stopped.addEventListener.bind(engine.stopped);
  engine.stopped.addEventListener = (...args: Parameters<typeof add>) => {
    listeners++;
    add(...args);
  };
  const leases = Array.from({ length: 100 }, (_, i) =>
    engine.open({
      ...{ name: `n${i}`, ownerId: `me${i}`, fencingToken: BigInt(i), sent: instant(clock) },
      ...{ ttlMs: 9_000, validMs: 9_000, autoRenew: true },
    }, {
      renew: () => Promise.resolve({ state: "held", validMs: 9_000 }),
      // Never answered, so it is repeated until the deadline, and after that in the background.
      release: () => Promise.resolve({ state: "unknown", cause: undefined }),
    })!);
  const released = Promise.all(leases.map((lease) => lease.release()));
  await clock.pass(12_000);
  await released;
  const closed = engine.close(1_000);
  await clock.pass(30_000);
  await closed;
  assert(listeners <= 1, `${listeners} listeners were added`);
});

Deno.test("LeaseEngine.close() waits for the other releases when one is refused", async () => {
  const { engine, clock, releases } = openLease({ autoRenew: false });
  const other = Promise.withResolvers<{ state: "released" }>();
  engine.open({
    ...{ name: "m", ownerId: "me", fencingToken: 8n, sent: instant(clock) },
    ...{ ttlMs: 3_000, validMs: 3_000, autoRenew: false },
  }, { release: () => other.promise });
  let isClosed = false;
  const closed = engine.close(2_000).then(() => isClosed = true);
  await clock.pass(1_000);
  releases[0]!.answer({ state: "refused", reason: "no right", cause: undefined });
  await settle();
  assert(!isClosed);
  other.resolve({ state: "released" });
  await closed;
  assertEquals(clock.timers, 0);
});

function disposedAt(call: () => unknown): void {
  assertEquals(assertThrows(call, LeaseLostError).reason, "disposed");
}

Deno.test("LeaseEngine.close() ends a lease for its holder at once, and renews it for half of its time", async () => {
  const { clock, engine, lease, renewals, releases } = openLease();
  let isClosed = false;
  const closed = engine.close(8_000).then(() => isClosed = true);
  disposedAt(() => lease.throwIfLost());
  disposedAt(() => lease.signal.throwIfAborted());
  assertEquals(lease.remainingMs, 0);
  for (let i = 0; i < 3; i++) {
    await clock.pass(1_100);
    renewals[i]!.answer({ state: "held", validMs: 3_000 });
    await settle();
    assertEquals([releases.length, lease.remainingMs], [0, 0]);
  }
  await assertRejects(() => lease.renew(), LeaseLostError, "disposed");
  await clock.pass(700);
  renewals[3]!.answer({ state: "held", validMs: 3_000 }); // sent just before the half
  await settle();
  assertEquals([releases.length, isClosed], [1, false]);
  releases[0]!.answer({ state: "released" });
  await settle();
  assert(isClosed);
  disposedAt(() => lease.throwIfLost());
  assertEquals(await lease.release(), false);
  await closed;
  assertEquals([renewals.length, clock.timers], [4, 0]);
});

Deno.test("LeaseEngine.close() says that a lease has expired when its deadline was over before, and keeps it no longer", async () => {
  const { clock, engine, lease, releases } = openLease({ autoRenew: false });
  clock.block(3_000);
  let isClosed = false;
  const closed = engine.close(8_000).then(() => isClosed = true);
  await settle();
  releases[0]!.answer({ state: "gone", reason: "expired" });
  await clock.pass(0);
  assert(isClosed);
  await closed;
  assertEquals(assertThrows(() => lease.throwIfLost(), LeaseLostError).reason, "expired");
});

Deno.test("LeaseEngine.close() ends when the holder releases a kept lease, which answers true if the lock was ours", async () => {
  const answers: ReleaseAnswer[] = [{ state: "released" }, { state: "gone", reason: "stolen" }];
  for (const answer of answers) {
    const { clock, engine, lease, releases } = openLease();
    let isClosed = false;
    const closed = engine.close(8_000).then(() => isClosed = true);
    await clock.pass(500);
    const released = lease.release();
    await settle();
    assert(!isClosed);
    releases[0]!.answer(answer);
    assertEquals(await released, answer.state === "released");
    await settle();
    assert(isClosed);
    await closed;
    disposedAt(() => lease.throwIfLost());
    disposedAt(() => lease.signal.throwIfAborted());
    assertEquals([releases.length, clock.timers], [1, 0]);
  }
});

Deno.test("LeaseEngine.close() ends when a kept lease is lost, and the holder's error stays", async () => {
  const { clock, engine, lease, releases } = openLease({ autoRenew: false });
  let isClosed = false;
  const closed = engine.close(8_000).then(() => isClosed = true);
  await clock.pass(3_000);
  assertEquals(releases.length, 1, "the server may still hold it");
  releases[0]!.answer({ state: "gone", reason: "expired" });
  await settle();
  assert(isClosed);
  disposedAt(() => lease.throwIfLost());
  assertEquals(await lease.release(), false);
  await closed;
  assertEquals(clock.timers, 0);
});

Deno.test("LeaseEngine.close() ends a lease that outlives it for its holder, and neither waits for it nor releases it", async () => {
  const { clock, engine, lease, renewals, releases } = openLease({ outlivesDisposal: true });
  await engine.close(8_000);
  disposedAt(() => lease.throwIfLost());
  assertEquals(await lease.release(), false);
  await clock.pass(10_000);
  assertEquals([renewals.length, releases.length, clock.timers], [0, 0, 0]);
});

Deno.test("LeaseEngine.close(0) sends a release that already waits behind a renewal", async () => {
  const { clock, engine, lease, renewals, releases } = openLease();
  await clock.pass(1_000);
  assertEquals(renewals.length, 1);
  const released = lease.release();
  await settle();
  assertEquals(releases.length, 0);
  const closed = engine.close(0);
  await clock.pass(0);
  await closed;
  assertEquals(releases.length, 1);
  releases[0]!.answer({ state: "released" });
  assertEquals(await released, true);
});

Deno.test("LeaseEngine.close(0) sends each release at once, also behind a renewal, and awaits no answer", async () => {
  const { clock, engine, lease, renewals, releases } = openLease();
  await clock.pass(1_000);
  assertEquals(renewals.length, 1);
  const closed = engine.close(0);
  assertEquals(releases.length, 1);
  await clock.pass(0);
  await closed;
  assert(engine.stopped.aborted);
  disposedAt(() => lease.throwIfLost());
});

Deno.test("LeaseEngine.close() sends a release that waits behind a renewal without an answer when its time is over", async () => {
  const { clock, engine, renewals, releases } = openLease({ ttlMs: 30_000, validMs: 30_000 });
  await clock.pass(9_600);
  const closed = engine.close(2_000);
  await clock.pass(1_999); // the lock was kept for the first half, and its renewal was due
  assertEquals([renewals.length, releases.length], [1, 0]);
  await clock.pass(1);
  await closed;
  assertEquals([releases.length, engine.stopped.aborted], [1, true]);
});

Deno.test("LeaseEngine.close(0) sends the release of a lost lease that waits behind a renewal without an answer", async () => {
  const { clock, engine, lease, renewals, releases } = openLease();
  await clock.pass(1_000);
  lease.lose("max-hold");
  const closed = engine.close(0);
  await clock.pass(0);
  await closed;
  assertEquals([renewals.length, releases.length], [1, 1]);
});
