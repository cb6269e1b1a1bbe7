/** What a test can do to a `FakeLock`. That it is a lock at all, the conformance suite checks. */
import { assert, assertEquals, assertInstanceOf, assertRejects, assertThrows } from "@std/assert";
import { FakeClock, FakeLock } from "../../fake/mod.ts";
import { fetchLock } from "../../http/mod.ts";
import {
  acquireAll,
  LeaseLostError,
  type LeaseLostReason,
  LockError,
  LockSetupError,
  LockTimeoutError,
  LockUnavailableError,
} from "../../mod.ts";

const REASONS: readonly LeaseLostReason[] = [
  ...["expired", "stolen", "unreachable", "session-expired", "max-hold", "disposed"] as const,
];
const TTL_MS = 3_000;

/** A fake lock on a fake clock. */
function open() {
  const clock = new FakeClock();
  return { clock, locks: new FakeLock({ clock, ttlMs: TTL_MS }) };
}

/** Lets all settle that needs no time, and returns what a promise has settled with. */
async function now<T>(clock: FakeClock, promise: Promise<T>): Promise<T | "pending" | Error> {
  const result = resultOf(promise);
  await clock.advance(0);
  return result();
}

/** Returns what a promise has settled with, whenever it is asked. */
function resultOf<T>(promise: Promise<T>): () => T | "pending" | Error {
  let result: T | "pending" | Error = "pending";
  promise.then((value) => result = value, (error) => result = error);
  return () => result;
}

Deno.test("FakeLock.acquire() of a held lock ends by an abort, an outage or a disposal, however soon that comes", async () => {
  for (const end of ["abort", "outage", "disposal"] as const) {
    for (let turns = 0; turns < 5; turns++) {
      const { clock, locks } = open();
      await using _locks = locks;
      locks.holdElsewhere("n");
      const abort = new AbortController();
      const result = resultOf(locks.acquire("n", { signal: abort.signal }));
      for (let i = 0; i < turns; i++) await null;
      if (end === "abort") abort.abort(new Error("enough"));
      else if (end === "outage") locks.startOutage();
      else void locks[Symbol.asyncDispose]();
      await clock.advance(0);
      assertInstanceOf(result(), Error, `${end} after ${turns} turns`);
    }
  }
});

Deno.test("FakeLock.holdElsewhere() holds a lock until its release, and then waiters get it in order", async () => {
  const { clock, locks } = open();
  await using _locks = locks;
  const other = locks.holdElsewhere("n", { label: "host-b" });
  assertEquals(await locks.tryAcquire("n"), null);
  const order: string[] = [];
  const waits = ["first", "second"].map((who) => locks.request("n", () => void order.push(who)));
  assertEquals(await now(clock, Promise.all(waits)), "pending");
  const { holders, waiterCount } = locks.snapshot("n");
  assertEquals([holders, waiterCount], [
    [{ mode: "exclusive", label: "host-b", fencingToken: 1n }],
    2,
  ]);
  assertEquals([other.release(), other.release()], [true, false]);
  await Promise.all(waits);
  assertEquals(order, ["first", "second"]);
  {
    using scoped = locks.holdElsewhere("n");
    assertEquals([scoped.name, scoped.fencingToken], ["n", 4n]);
    assertThrows(() => locks.holdElsewhere("n"), LockError, "somebody holds it");
  }
  await (await locks.acquire("n")).release();
  assertEquals(locks.snapshot("n").holders, []);
});

Deno.test("FakeLock.holdElsewhere() with ttlMs frees the lock as that of a killed process", async () => {
  const { clock, locks } = open();
  await using _locks = locks;
  const dead = locks.holdElsewhere("n", { ttlMs: 500 });
  const lease = locks.acquire("n");
  await clock.advance(499);
  assertEquals(locks.snapshot("n").holders, [{
    mode: "exclusive",
    fencingToken: 1n,
    remainingMs: 1,
  }]);
  assertEquals(await now(clock, lease), "pending");
  await clock.advance(1);
  assertEquals((await lease).fencingToken, 2n);
  assertEquals(dead.release(), false);
});

Deno.test("FakeLock.holdElsewhere() with steal is noticed at the next renewal", async () => {
  const { clock, locks } = open();
  await using _locks = locks;
  const lease = await locks.acquire("n");
  const { signal } = lease;
  using thief = locks.holdElsewhere("n", { steal: true });
  await clock.advance(TTL_MS / 4);
  assertEquals([lease.isHeld, signal.aborted], [true, false]);
  await clock.advance(TTL_MS / 4);
  assertInstanceOf(signal.reason, LeaseLostError);
  assertEquals([signal.reason.reason, await lease.release()], ["stolen", false]);
  assertEquals(locks.snapshot("n").holders[0]?.fencingToken, thief.fencingToken);
});

for (const reason of REASONS) {
  Deno.test(`FakeLock.loseLease() takes a lease away as a real one is lost: ${reason}`, async () => {
    const { clock, locks } = open();
    await using _locks = locks;
    const lease = await locks.acquire("n");
    const next = locks.acquire("n");
    assertEquals(await now(clock, next), "pending");
    const events: unknown[] = [];
    const { signal } = lease;
    signal.addEventListener("abort", () => {
      // All members tell the loss when the signal aborts, which it does at once.
      const thrown = assertThrows(() => lease.throwIfLost());
      events.push(["aborted", lease.isHeld, lease.remainingMs, thrown === signal.reason]);
    });
    const cause = new Error("why");
    locks.loseLease("n", reason, cause);
    events.push("lost");
    assertEquals(events, [["aborted", false, 0, true], "lost"]);
    const { reason: error } = signal;
    assertInstanceOf(error, LeaseLostError);
    assertEquals([error.reason, error.code, error.lockName], [reason, "ERR_LEASE_LOST", "n"]);
    assertEquals(await lease.renew().catch((thrown) => thrown === error), true);
    // After a disposal the lock is kept, and then released by its holder.
    const isKept = reason === "disposed";
    if (!isKept) assertEquals(error.cause, cause);
    assertEquals(await now(clock, next) === "pending", isKept);
    assertEquals(await lease.release(), isKept);
    assertEquals((await next).isHeld, true);
    assertThrows(() => locks.loseLease("m", reason), LockError, "nobody holds one here");
  });
}

Deno.test("FakeLock.loseLease() takes an unproven lease away, and no lease that is lost, released or elsewhere", async () => {
  const { clock, locks } = open();
  await using _locks = locks;
  const nobody = () =>
    assertThrows(() => locks.loseLease("n", "stolen"), LockError, "nobody holds one here");
  const unproven = await locks.acquire("n");
  clock.suspend(TTL_MS / 2);
  assertEquals(unproven.isHeld, false);
  locks.loseLease("n", "stolen");
  assertEquals(unproven.signal.reason.reason, "stolen");
  nobody();
  const kept = await locks.acquire("n");
  locks.loseLease("n", "disposed");
  nobody();
  await kept.release();
  const releasing = await locks.acquire("n");
  const frozen = locks.delayAnswers();
  const released = releasing.release();
  nobody();
  frozen.end();
  assertEquals(await released, true);
  using _other = locks.holdElsewhere("n");
  nobody();
});

Deno.test("FakeLock: shared leases exclude exclusive ones, elsewhere too, and are lost together", async () => {
  const { clock, locks } = open();
  await using _locks = locks;
  const other = locks.holdElsewhere("n", { mode: "shared" });
  const leases = [
    await locks.acquire("n", { mode: "shared" }),
    await locks.acquire("n", { limit: 3 }),
  ];
  assertEquals(await locks.tryAcquire("n", { limit: 3 }), null);
  assertEquals(locks.snapshot("n").holderCount, 3);
  const exclusive = locks.acquire("n");
  assertEquals(await now(clock, exclusive), "pending");
  locks.loseLease("n", "expired");
  assertEquals(leases.map(({ signal }) => signal.reason.reason), ["expired", "expired"]);
  assertEquals(await now(clock, exclusive), "pending");
  other.release();
  await (await exclusive).release();
});

Deno.test("FakeLock works in the web parts: a busy lock, a loss and an outage are answered", async () => {
  await using locks = new FakeLock();
  let work = () => {};
  const handler = fetchLock(locks, "n")(() => {
    work();
    return new Response("done");
  });
  const answer = async () => {
    const response = await handler(new Request("http://localhost/"));
    const text = await response.text();
    return [response.status, text === "done" ? text : JSON.parse(text).title];
  };
  assertEquals(await answer(), [200, "done"]);
  const other = locks.holdElsewhere("n");
  assertEquals(await answer(), [409, "Busy"]);
  other.release();
  work = () => locks.loseLease("n", "expired");
  assertEquals(await answer(), [503, "Lease lost"]);
  locks.startOutage();
  assertEquals(await answer(), [503, "Lock service unavailable"]);
});

Deno.test("FakeLock.request() rejects with the loss that its callback has not noticed", async () => {
  await using locks = new FakeLock();
  const lost = locks.request("n", () => locks.loseLease("n", "expired"));
  assertEquals((await assertRejects(() => lost, LeaseLostError)).reason, "expired");
});

Deno.test("FakeLock.startOutage() rejects calls and waiters, and a lease is lost at its deadline", async () => {
  const { clock, locks } = open();
  await using _locks = locks;
  const lease = await locks.acquire("n");
  const { signal } = lease;
  const waits = [locks.acquire("n"), locks.acquire("n", { waitMs: 60_000 })];
  await clock.advance(0);
  const outage = locks.startOutage({ reason: "ECONNREFUSED" });
  const calls = [
    ...waits,
    locks.acquire("m"),
    locks.tryAcquire("m"),
    locks.tryAcquire("m", { waitMs: 0 }),
    locks.request("m", () => "never"),
    locks.request("n", { steal: true }, () => "never"),
    locks.query("n"),
  ];
  for (
    const { status, reason } of await Promise.allSettled<unknown>(calls) as PromiseRejectedResult[]
  ) {
    assertEquals(status, "rejected");
    assertInstanceOf(reason, LockUnavailableError);
    assert(/^Cannot reach .* for lock "[nm]": ECONNREFUSED$/.test(reason.message), reason.message);
  }
  await clock.advance(TTL_MS * 0.9);
  assertEquals(lease.isHeld, true);
  await clock.advance(TTL_MS * 0.1);
  assertEquals([signal.reason.reason, signal.reason.cause.name], [
    "unreachable",
    "LockUnavailableError",
  ]);
  assertEquals(locks.snapshot("n").holders, [], "the TTL has ended at the service, too");
  outage.end();
  await (await locks.acquire("n")).release();
});

Deno.test("FakeLock releases in the background when the outage is over", async () => {
  const { clock, locks } = open();
  await using _locks = locks;
  const lease = await locks.acquire("n");
  const outage = locks.startOutage();
  const released = lease.release();
  assertEquals(await now(clock, released), "pending");
  outage.end();
  await clock.advance(TTL_MS / 4);
  assertEquals(await now(clock, released), true);
  assert(locks.counts("n").release > 1);
});

Deno.test("FakeLock.startRefusal() rejects calls and releases with a LockSetupError", async () => {
  const { clock, locks } = open();
  await using _locks = locks;
  const lease = await locks.acquire("n");
  const waiting = locks.acquire("n");
  await clock.advance(0);
  {
    using _refusal = locks.startRefusal({ reason: "NOPERM" });
    for (const call of [waiting, locks.acquire("m"), locks.query("m"), lease.release()]) {
      const error = await assertRejects(() => call, LockSetupError, "NOPERM");
      assertEquals(error.code, "ERR_LOCK_SETUP");
    }
  }
  await (await locks.acquire("m")).release();
  assertEquals(locks.snapshot("n").holders.length, 1, "a refused release keeps the lock");
});

Deno.test("FakeLock: a fault is for some requests, names and times", async () => {
  await using locks = new FakeLock();
  locks.startOutage({ name: "n", requests: ["acquire"], times: 2 });
  for (let i = 0; i < 2; i++) {
    await (await locks.acquire("m")).release();
    await locks.query("n");
    await assertRejects(() => locks.acquire("n"), LockUnavailableError);
  }
  await (await locks.acquire("n")).release();
  locks.startOutage({ times: 0 });
  await (await locks.acquire("n")).release();
  const none = { acquire: 0, renew: 0, release: 0, query: 0 };
  assertEquals(locks.counts("n"), { ...none, acquire: 4, release: 2, query: 2 });
  assertEquals(locks.counts("m"), { ...none, acquire: 2, release: 2 });
  assertEquals(locks.counts(), { ...none, acquire: 6, release: 4, query: 2 });
  assertEquals(locks.counts("?"), none);
});

Deno.test("FakeLock.delayAnswers() delays answers, for a time or until its end", async () => {
  const { clock, locks } = open();
  await using _locks = locks;
  const slow = locks.delayAnswers(200, { requests: ["acquire"] });
  const acquired = locks.acquire("n");
  await clock.advance(199);
  assertEquals(await now(clock, acquired), "pending");
  await clock.advance(1);
  const lease = await acquired;
  // It counts from when the request was sent, as a real one.
  assert(lease.remainingMs <= TTL_MS - 200, `${lease.remainingMs}`);
  await lease.release();
  slow.end();
  const frozen = locks.delayAnswers();
  const calls = [locks.acquire("n"), locks.tryAcquire("m"), locks.query("m")];
  assertEquals(await now(clock, Promise.race<unknown>(calls)), "pending");
  const signal = AbortSignal.abort(new Error("too late"));
  for (const method of ["acquire", "tryAcquire"] as const) {
    assertEquals(await now<unknown>(clock, locks[method]("n", { signal })), signal.reason);
  }
  frozen.end();
  for (const call of calls) assert(await call !== null);
});

Deno.test("FakeLock: a service that does not answer is an outage, after waitMs and a second or after unavailableAfterMs", async () => {
  const clock = new FakeClock();
  await using locks = new FakeLock({ clock, unavailableAfterMs: 4_000 });
  using _frozen = locks.delayAnswers();
  const abort = new AbortController();
  const aborted = locks.acquire("n", { signal: abort.signal });
  const single = resultOf(locks.acquire("n", { waitMs: 0 }));
  const bounded = resultOf(locks.acquire("n", { waitMs: 500 }));
  const unbounded = resultOf(locks.acquire("n"));
  abort.abort(new Error("enough"));
  assertEquals(await now(clock, aborted), abort.signal.reason);
  await clock.advance(1_100);
  assertInstanceOf(single(), LockUnavailableError);
  await clock.advance(1_100);
  assertInstanceOf(bounded(), LockUnavailableError);
  assertEquals(unbounded(), "pending");
  await clock.advance(1_800);
  const error = unbounded();
  assertInstanceOf(error, LockUnavailableError);
  assert(error.message.endsWith("it has not answered in time for 4000 ms"), error.message);
});

Deno.test("FakeLock: on a fake clock leases are renewed, and waits end, when time passes", async () => {
  const late: number[] = [];
  const clock = new FakeClock();
  const onRenewalLate = ({ remainingMs }: { remainingMs: number }) => late.push(remainingMs);
  await using locks = new FakeLock({ clock, ttlMs: TTL_MS, onRenewalLate });
  const lease = await locks.acquire("n");
  const wait = resultOf(locks.acquire("n", { waitMs: 2_000 }));
  await clock.advance(1_999);
  assertEquals(wait(), "pending");
  await clock.advance(1);
  assertInstanceOf(wait(), LockTimeoutError);
  await clock.advance(10 * TTL_MS);
  assertEquals(lease.isHeld, true);
  assert(locks.counts("n").renew >= 20, `${locks.counts("n").renew}`);
  locks.startOutage({ requests: ["renew"] });
  await clock.advance(TTL_MS);
  assertEquals([lease.isHeld, late.length], [false, 1]);
});

Deno.test("FakeClock.suspend() leaves a lease unproven until a renewal is answered, or takes it away", async () => {
  const { clock, locks } = open();
  await using _locks = locks;
  const lease = await locks.acquire("n");
  clock.suspend(TTL_MS / 2);
  assertThrows(() => lease.throwIfLost(), LeaseLostError);
  assertEquals(lease.signal.aborted, false);
  await clock.advance(0);
  lease.throwIfLost();
  clock.suspend(2 * TTL_MS);
  assertThrows(() => lease.throwIfLost(), LeaseLostError);
  await clock.advance(0);
  assertEquals(lease.signal.reason.reason, "expired");
  await (await locks.acquire("n")).release();
});

Deno.test("FakeLock resolves with a lease that is held, although the process was suspended before the answer", async () => {
  const clock = new FakeClock();
  await using locks = new FakeLock({ clock, ttlMs: TTL_MS });
  for (const ask of ["acquire", "tryAcquire"] as const) {
    const fault = locks.delayAnswers();
    const asking = locks[ask]("n");
    clock.suspend(TTL_MS / 2);
    fault.end();
    await using lease = (await asking)!;
    lease.throwIfLost();
  }
});

for (const [what, sleptMs] of [["is held", TTL_MS / 2], ["has expired", 2 * TTL_MS]] as const) {
  Deno.test(`FakeLock resolves with a lease that is held, if the process was suspended since a grant that ${what}`, async () => {
    const clock = new FakeClock();
    await using locks = new FakeLock({ clock, ttlMs: TTL_MS });
    const other = locks.holdElsewhere("n");
    const acquiring = locks.acquire("n");
    await clock.advance(0);
    other.release();
    locks.startOutage({ requests: ["renew"] }); // it must not need that
    clock.suspend(sleptMs);
    await clock.advance(0);
    const lease = await acquiring;
    lease.throwIfLost();
    assertEquals(locks.snapshot("n").holders[0]?.fencingToken, lease.fencingToken);
    await lease.release();
  });
}

Deno.test("acquireAll() hands out no lease that a suspension has left unproven: it asks for it first", async () => {
  for (const autoRenew of [true, false]) {
    for (const isGone of [true, false]) {
      const { clock, locks } = open();
      await using _locks = locks;
      const other = locks.holdElsewhere("b");
      const call = acquireAll(locks, ["a", "b"], { autoRenew });
      assertEquals(await now(clock, call), "pending");
      clock.suspend(isGone ? 2 * TTL_MS : TTL_MS / 2);
      using _thief = isGone ? locks.holdElsewhere("a") : undefined;
      other.release();
      const result = await now(clock, call);
      if (isGone) {
        assertInstanceOf(result, LeaseLostError);
        assertEquals([result.lockName, locks.snapshot("b").holders], ["a", []]);
      } else {
        assert(typeof result === "object" && "leases" in result);
        assertEquals(result.isHeld, true);
      }
    }
  }
});

Deno.test("acquireAll() that asks for an unproven lease in an outage ends by its signal", async () => {
  const { clock, locks } = open();
  await using _locks = locks;
  const other = locks.holdElsewhere("b");
  const abort = new AbortController();
  const call = acquireAll(locks, ["a", "b"], { signal: abort.signal });
  assertEquals(await now(clock, call), "pending");
  clock.suspend(TTL_MS / 2);
  locks.startOutage({ requests: ["renew"] });
  other.release();
  assertEquals(await now(clock, call), "pending");
  abort.abort(new Error("enough"));
  assertEquals(await now(clock, call), abort.signal.reason);
  assertEquals([locks.snapshot("a").holders, locks.snapshot("b").holders], [[], []]);
});

Deno.test("FakeClock.suspend() lets locks expire at the service, and their waiters get them", async () => {
  const { clock, locks } = open();
  await using _locks = locks;
  await locks.acquire("n");
  await locks.acquire("m");
  locks.holdElsewhere("dead", { ttlMs: TTL_MS });
  const waiter = resultOf(locks.acquire("dead"));
  locks.holdElsewhere("alive");
  await clock.advance(0);
  clock.suspend(TTL_MS - 1);
  assertEquals(locks.snapshot("n").holders[0]?.remainingMs, 1);
  assertEquals(await locks.tryAcquire("n"), null);
  clock.suspend(1);
  assertEquals(locks.snapshot("n").holders, []);
  locks.holdElsewhere("n").release();
  const next = await locks.tryAcquire("m");
  assertEquals(next?.isHeld, true);
  await clock.advance(0);
  const granted = waiter();
  assert(typeof granted === "object" && "isHeld" in granted && granted.isHeld);
  assertEquals(locks.snapshot("alive").holderCount, 1);
});

Deno.test("FakeClock.suspend() brings the end of a lock nearer that expires afterwards", async () => {
  const { clock, locks } = open();
  await using _locks = locks;
  locks.holdElsewhere("n", { ttlMs: TTL_MS });
  const waiter = resultOf(locks.acquire("n"));
  clock.suspend(TTL_MS / 2);
  await clock.advance(TTL_MS / 2 - 1);
  assertEquals(waiter(), "pending");
  await clock.advance(1);
  assert(waiter() !== "pending");
});

Deno.test("FakeLock: disposal ends on a fake clock that stands still, whatever is under way", async () => {
  const { clock, locks } = open();
  const lease = await locks.acquire("n");
  await locks.acquire("lost");
  const calls = [resultOf(locks.acquire("n"))];
  locks.startOutage({ requests: ["release", "renew"] });
  await clock.advance(0);
  locks.loseLease("lost", "unreachable");
  const frozen = locks.delayAnswers(undefined, { requests: ["acquire"] });
  calls.push(resultOf(locks.acquire("m")));
  await clock.advance(0);
  await locks[Symbol.asyncDispose]();
  for (const result of calls) assertEquals((result() as Error).name, "AbortError");
  assertEquals(lease.signal.reason.reason, "disposed");
  frozen.end();
  const { name } = await assertRejects(() => locks.acquire("n"), DOMException);
  assertEquals(name, "InvalidStateError");
  assertThrows(() => locks.holdElsewhere("n"), DOMException);
});

Deno.test("FakeLock.acquire() frees the lock when its grant comes after the lease's deadline", async () => {
  const clock = new FakeClock();
  await using locks = new FakeLock({ clock, ttlMs: 100 });
  const slow = locks.delayAnswers(200);
  const result = resultOf(locks.tryAcquire("n"));
  await clock.advance(200);
  assertInstanceOf(result(), LockUnavailableError);
  slow.end();
  assertEquals(locks.snapshot("n").holders, []);
});

Deno.test("FakeLock and its methods throw for bad arguments", async () => {
  await using locks = new FakeLock();
  const clock = new FakeClock();
  const bad = (value: unknown) => value as never;
  for (
    const [call, ErrorClass] of [
      [() => new FakeLock({ ttlMs: 5 }), RangeError],
      [() => new FakeLock(bad({ clock: {} })), TypeError],
      [() => new FakeLock(bad({ tllMs: 5_000 })), TypeError],
      [() => locks.holdElsewhere(""), RangeError],
      [() => locks.holdElsewhere("n", bad({ steal: 1 })), TypeError],
      [() => locks.holdElsewhere("n", bad({ force: true })), TypeError],
      [() => locks.loseLease("n", bad("gone")), TypeError],
      [() => locks.loseLease(bad(1), "expired"), TypeError],
      [() => locks.startOutage({ requests: bad(["ask"]) }), TypeError],
      [() => locks.startOutage({ requests: bad("acquire") }), TypeError],
      [() => locks.startRefusal({ times: -1 }), RangeError],
      [() => locks.startRefusal(bad({ lock: "n" })), TypeError],
      [() => locks.delayAnswers(-1), RangeError],
      [() => locks.delayAnswers(bad("1s")), TypeError],
      [() => locks.snapshot(bad(1)), TypeError],
      [() => clock.suspend(-1), RangeError],
    ] as const
  ) assertThrows(call, ErrorClass);
  await assertRejects(() => clock.advance(0.5), RangeError);
  await (await locks.acquire("n")).release();
});

Deno.test("FakeClock fires timers in order, and not those that were cancelled", async () => {
  const clock = new FakeClock();
  const fired: string[] = [];
  const add = (name: string, delayMs: number) =>
    clock.schedule(() => void fired.push(`${name}@${clock.now()}`), delayMs);
  add("c", 30);
  add("a", 10);
  add("b", 10);
  add("late", 31);
  const cancel = add("cancelled", 20);
  clock.schedule(() => add("nested", 5), 20);
  cancel();
  const wallMs = clock.wall();
  await clock.advance(30);
  assertEquals(fired, ["a@10", "b@10", "nested@25", "c@30"]);
  assertEquals([clock.now(), clock.wall() - wallMs], [30, 30]);
});
