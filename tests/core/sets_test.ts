/**
 * Sets of leases: arguments, times, refused releases. What all strategies do is in
 * `testing/conformance/sets.ts`.
 */
import { assert, assertEquals, assertRejects, assertThrows } from "@std/assert";
import { setImmediate } from "node:timers";
import { LimitedLease } from "../../core/sets/limited_lease.ts";
import { leaseSetOf } from "../../core/sets/lease_set.ts";
import { abortable, type Clock } from "../../core/time/clock.ts";
import { FileLock } from "../../file/mod.ts";
import {
  acquireAll,
  type AcquireAllOptions,
  type DistributedLock,
  type Lease,
  LeaseLostError,
  LockError,
  LockSetupError,
  LockTimeoutError,
  MemoryLock,
  requestAll,
  tryAcquireAll,
} from "../../mod.ts";
import { countListeners } from "../../testing/core/count_listeners.ts";
import { FakeClock, settle } from "../../testing/core/fake_clock.ts";
import { openLease, PROVABLE_MS } from "../../testing/core/fake_service.ts";
import { aborted, within } from "../../testing/conformance/bounds.ts";
import { waitUntil } from "../../testing/servers/wait.ts";
import { CONDITION_BOUND_MS, scaled } from "../../testing/time.ts";

type Names = string[];

/** Another strategy: the same locks, with another `acquire()`. */
function wrapped(locks: MemoryLock, acquire: DistributedLock["acquire"]): DistributedLock {
  const { capabilities } = locks;
  return { capabilities, acquire } as Partial<DistributedLock> as DistributedLock;
}

Deno.test("acquireAll() and tryAcquireAll() reject bad entries and options before they take a lock", async () => {
  await using locks = new MemoryLock();
  const bad: [entries: unknown, options: unknown, type: typeof TypeError | typeof RangeError][] = [
    ["ab", {}, TypeError],
    [undefined, {}, TypeError],
    [[], {}, RangeError],
    [Array.from({ length: 65 }, (_, i) => `n${i}`), {}, RangeError],
    [["a", "b", "a"], {}, TypeError],
    [["a", { name: "a", mode: "shared" }], {}, TypeError],
    [["a", ""], {}, RangeError],
    [["a", 7], {}, TypeError],
    [["a", null], {}, TypeError],
    [["a", { mode: "shared" }], {}, TypeError],
    [["a", { name: "b", mode: "both" }], {}, TypeError],
    [["a", { name: "b", limit: 0 }], {}, RangeError],
    [["a", { name: "b", limit: 2, mode: "exclusive" }], {}, TypeError],
    [["a", { name: "b", waitMs: 5 }], {}, TypeError],
    [["a"], null, TypeError],
    [["a"], { timeout: 5 }, TypeError],
    [["a"], { steal: true }, TypeError],
    [["a"], { ownerId: "me" }, TypeError],
    [["a"], { maxHoldMs: 0 }, RangeError],
    [["a"], { onWait: 1 }, TypeError],
  ];
  for (const [entries, options, type] of bad) {
    for (const method of [acquireAll, tryAcquireAll]) {
      const call = () => method(locks, entries as Names, options as AcquireAllOptions);
      await assertRejects(call, type, undefined, JSON.stringify([entries, options]));
    }
  }
  assertEquals((await locks.query("a")).holderCount, 0);
  const { capabilities } = locks;
  const untouched = { capabilities } as Partial<DistributedLock> as DistributedLock;
  const entry = "it must be a name or { name, mode, limit }, but it is";
  const messages: [entries: unknown, message: string][] = [
    [["a", "\ud800"], "well-formed Unicode"],
    [["a", 7], `${entry} a number`],
    [["a", null], `${entry} null`],
  ];
  for (const [entries, message] of messages) {
    await assertRejects(() => acquireAll(untouched, entries as Names), TypeError, message);
  }
  const most = Array.from({ length: 64 }, (_, i) => `n${i}`);
  assertEquals(await (await acquireAll(locks, most)).release(), true);
  // A mode that the strategy lacks is found before the first name is taken, too.
  await using files = new FileLock({ dir: "/nowhere" });
  const error = await assertRejects(
    () => acquireAll(files, ["a", { name: "b", mode: "shared" }]),
    DOMException,
  );
  assertEquals(error.name, "NotSupportedError");
});

Deno.test("requestAll() rejects a steal, a missing callback and unknown options", async () => {
  await using locks = new MemoryLock();
  const callback = () => "done";
  const steal = { steal: true } as AcquireAllOptions;
  const error = await assertRejects(() => requestAll(locks, ["a"], steal, callback), DOMException);
  assertEquals(error.name, "NotSupportedError");
  const none = undefined as unknown as () => void;
  await assertRejects(() => requestAll(locks, ["a"], {}, none), TypeError);
  await assertRejects(() => requestAll(locks, ["a"], none), TypeError);
  const unknown = { timeout: 5 } as AcquireAllOptions;
  await assertRejects(() => requestAll(locks, ["a"], unknown, callback), TypeError, "waitMs");
  assertEquals(await requestAll(locks, ["a"], { ifAvailable: true }, callback), "done");
});

Deno.test("acquireAll() takes mode and limit of the options for entries without their own", async () => {
  await using locks = new MemoryLock();
  const entries = ["a", { name: "b", mode: "exclusive" }, { name: "c", mode: "shared" }] as const;
  await using set = await acquireAll(locks, entries, { limit: 1, label: "job-1" });
  const modes = [...set.leases.values()].map(({ mode }) => mode);
  assertEquals(modes, ["shared", "exclusive", "shared"]);
  assertEquals(await locks.tryAcquire("a", { limit: 1 }), null);
  assertEquals(await (await locks.tryAcquire("c", { limit: 2 }))?.release(), true);
  assertEquals((await locks.query("b")).holders[0]?.label, "job-1");
});

Deno.test("acquireAll() waits for waitMs in all, and says for which name and how long", async () => {
  await using locks = new MemoryLock();
  await using _held = await locks.acquire("b", { label: "other" });
  const startMs = performance.now();
  const waits: unknown[] = [];
  const asked = wrapped(locks, async (name, options) => {
    waits.push(options?.waitMs);
    if (name === "b") return await locks.acquire(name, options);
    const endMs = performance.now() + 60;
    await waitUntil("a part of the time is over", () => performance.now() > endMs);
    return await locks.acquire(name);
  });
  const error = await assertRejects(
    () => acquireAll(asked, ["b", "a"], { waitMs: 100 }),
    LockTimeoutError,
  );
  const [first, second] = waits.map(Number) as [number, number];
  // A slow machine may lose a few ms before the first call.
  const isLess = first > 0 && first <= 100 && second <= Math.max(0, first - 59);
  assert(isLess, `${waits}: what is left is for the next name`);
  assert(performance.now() - startMs >= 99);
  assert(error.waitedMs >= 99, `${error.waitedMs} ms`);
  assert(error.waitedMs <= performance.now() - startMs + 1, `${error.waitedMs} ms`);
  assertEquals([error.lockName, error.holderLabel], ["b", "other"]);
  await assertRejects(() => acquireAll(asked, ["b"], { waitMs: 0 }), LockTimeoutError);
  assertEquals(waits.at(-1), 0);
  assertEquals(await tryAcquireAll(locks, ["b", "a"], { waitMs: 0 }), null);
  assertEquals((await locks.query("a")).holderCount, 0);
});

Deno.test("acquireAll() never asks for more than waitMs, however the clock rounds", async () => {
  await using locks = new MemoryLock();
  const { now } = performance;
  performance.now = () => 1 + 3e-7;
  try {
    await using _set = await acquireAll(locks, ["a", "b"], { waitMs: 2 ** 31 - 1 });
  } finally {
    performance.now = now;
  }
});

Deno.test("acquireAll() keeps nothing when it loses the first name in the moment in which it gets the last", async () => {
  await using locks = new MemoryLock();
  const robbed = wrapped(locks, async (name, options) => {
    // Whatever the signal says: this grant was under way.
    const lease = await locks.acquire(name, { ...options, signal: undefined });
    if (name === "b") await locks.request("a", { steal: true }, () => {});
    return lease;
  });
  const error = await assertRejects(() => acquireAll(robbed, ["a", "b"]), LeaseLostError);
  assertEquals([error.lockName, (await locks.query("b")).holderCount], ["a", 0]);
});

Deno.test("acquireAll() tells onWait which name it waits for, and a signal that has aborted ends it at once", async () => {
  await using locks = new MemoryLock();
  const held = await locks.acquire("b");
  const waits: unknown[] = [];
  const call = acquireAll(locks, ["b", "a"], { onWait: (name, info) => waits.push([name, info]) });
  while (waits.length === 0) await null;
  await held.release();
  await (await call).release();
  assertEquals(waits, [["b", { position: 1, waiters: 1 }]]);
  const signal = AbortSignal.abort(new Error("too late"));
  await assertRejects(() => acquireAll(locks, ["a"], { signal }), Error, "too late");
  await assertRejects(() => tryAcquireAll(locks, ["a"], { signal }), Error, "too late");
});

Deno.test("maxHoldMs of a set ends all its leases together, counted from the last grant", async () => {
  await using locks = new MemoryLock();
  const held = await locks.acquire("b");
  const call = acquireAll(locks, ["a", "b"], { maxHoldMs: 80 });
  await waitUntil("it waits", async () => (await locks.query("b")).waiterCount === 1);
  const endMs = performance.now() + 100;
  // So long the first name is held already: its time has not begun.
  await waitUntil("the time has passed", () => performance.now() > endMs);
  const startMs = performance.now();
  await held.release();
  const set = await call;
  assert(set.remainingMs <= 80);
  await within("the signal aborts", aborted(set.signal));
  assert(performance.now() - startMs >= 79);
  assertEquals((set.signal.reason as LeaseLostError).reason, "max-hold");
  for (const lease of set.leases.values()) {
    assertEquals([lease.isHeld, lease.remainingMs], [false, 0]);
    assertEquals(lease.signal.reason.reason, "max-hold");
    assertThrows(() => lease.throwIfLost(), LeaseLostError);
    await assertRejects(() => lease.renew(), LeaseLostError);
  }
  assertThrows(() => set.throwIfLost(), LeaseLostError);
  for (const name of ["a", "b"]) assertEquals((await locks.query(name)).holderCount, 0);
  assertEquals(await set.release(), false);
});

Deno.test("maxHoldMs of a set ends leases that are kept at disposal, as that of a single lease", async () => {
  const locks = new MemoryLock({ disposeTimeoutMs: 4 * CONDITION_BOUND_MS });
  const set = await acquireAll(locks, ["a", "b"], { maxHoldMs: scaled(500) });
  const disposed = locks[Symbol.asyncDispose]();
  await within("nothing is kept for half of the time for disposal", disposed);
  assertEquals((set.signal.reason as LeaseLostError).reason, "disposed");
});

Deno.test("maxHoldMs of a set prolongs no lease that ends earlier by its own", async () => {
  await using locks = new MemoryLock();
  const asked = wrapped(
    locks,
    (name, options) => locks.acquire(name, { ...options, maxHoldMs: 20_000 }),
  );
  await using set = await acquireAll(asked, ["a"], { maxHoldMs: 60_000 });
  assert(set.remainingMs <= 20_000);
});

Deno.test("LimitedLease reads the clock, shows no owner id, and leaves no timer after its release", async () => {
  await using locks = new MemoryLock();
  const clock = new FakeClock();
  const inner = await locks.acquire("n");
  const listeners = countListeners(inner.signal);
  const lease = new LimitedLease(inner, clock.now() + 50, clock);
  const { name, mode, fencingToken } = lease;
  assertEquals([name, mode, fencingToken, lease.remainingMs], ["n", "exclusive", 1n, 50]);
  assert(!JSON.stringify(lease).includes(lease.ownerId));
  await lease.renew();
  assertEquals([await lease.release(), await lease.release()], [true, false]);
  assertEquals(listeners(), 0);
  await clock.pass(100);
  assertEquals(lease.remainingMs, 0);
  assertEquals(clock.timers, 0);
  assertThrows(() => lease.throwIfLost(), LockError);
  assertEquals(lease.signal.aborted, false);
  // As on Node: a timer fires a fraction of a ms early.
  const early: Clock = {
    ...{ now: () => clock.now(), wall: () => clock.wall() },
    schedule: (callback, ms) => clock.schedule(callback, ms > 1 ? ms - 0.5 : ms),
  };
  const { signal } = new LimitedLease(await locks.acquire("m"), clock.now() + 50, early);
  await clock.pass(51);
  assertEquals(signal.aborted, true);
  const stolen = new LimitedLease(await locks.acquire("n"), clock.now() + 50, clock);
  await locks.request("n", { steal: true }, () => {});
  assertEquals([clock.timers, stolen.signal.reason.reason], [0, "stolen"]);
});

Deno.test("requestAll() never runs its callback when the locks were disposed, and rejects when they are meanwhile", async () => {
  const locks = new MemoryLock({ disposeTimeoutMs: 0 });
  let hasRun = false;
  const call = requestAll(locks, ["a", "b"], async (set) => {
    hasRun = true;
    locks[Symbol.asyncDispose]();
    await within("the set is lost", aborted(set.signal));
  });
  const error = await assertRejects(() => call, LeaseLostError);
  assertEquals([hasRun, error.reason], [true, "disposed"]);
  const late = requestAll(locks, ["a"], () => assert(false, "it ran"));
  assertEquals((await assertRejects(() => late, DOMException)).name, "InvalidStateError");
});

Deno.test("acquireAll() and requestAll() warn about a call for one of their names that waits for itself", async () => {
  const warnings: string[] = [];
  const onWarning = (message: string) => void warnings.push(message);
  const timesOut = (call: () => Promise<unknown>) => assertRejects(call, LockTimeoutError);
  const options = { waitMs: 20 };
  const warned = async (run: (locks: MemoryLock) => Promise<void>) => {
    warnings.length = 0;
    await using locks = new MemoryLock({ onWarning });
    await run(locks);
    return warnings.map((text) => /^Lock "(.)" is held by the code that waits/.exec(text)?.[1]);
  };
  const ofNested = await warned((locks) =>
    requestAll(locks, ["a", "b"], async () => {
      await timesOut(() => acquireAll(locks, ["b", "c"], options));
      await timesOut(() => locks.acquire("a", options));
    })
  );
  assertEquals(ofNested, ["b", "a"]);
  const ofUsed = await warned(async (locks) => {
    await using set = await acquireAll(locks, ["a", "b"], { maxHoldMs: 60_000 });
    await timesOut(() => requestAll(locks, ["b", "c"], options, () => {}));
    set.throwIfLost();
  });
  assertEquals(ofUsed, ["b"]);
  const ofReleased = await warned(async (locks) => {
    const set = await acquireAll(locks, ["a", "b"]);
    set.throwIfLost();
    await set.release();
    await using _other = await locks.acquire("a");
    await Promise.resolve().then(() => timesOut(() => acquireAll(locks, ["b", "a"], options)));
  });
  assertEquals(ofReleased, ["a"], "the lease that the code holds now");
  const ofMany = await warned(async (locks) => {
    await using held = await acquireAll(locks, ["a", "b"]);
    held.throwIfLost();
    for (let i = 0; i < 20; i++) {
      const set = await acquireAll(locks, ["c", "d"]);
      set.throwIfLost();
      for (const lease of set.leases.values()) await lease.release();
    }
    await timesOut(() => locks.acquire("a", options));
  });
  assertEquals(ofMany, ["a"], "leases that were released do not push it out of the list");
  const ofOthers = await warned(async (locks) => {
    const other = locks.acquire("a");
    await requestAll(locks, ["b"], () => timesOut(() => locks.acquire("a", options)));
    await (await other).release();
  });
  assertEquals(ofOthers, []);
});

Deno.test("LimitedLease.signal is aborted when it is read after the deadline of its lease", () => {
  const { lease, clock } = openLease();
  const set = leaseSetOf([new LimitedLease(lease, clock.now() + 60_000, clock)]);
  assert(!set.signal.aborted);
  clock.block(PROVABLE_MS); // no timer has run
  assert(set.signal.aborted);
  assertEquals(set.signal.reason.reason, "expired");
});

const NEVER = new AbortController().signal;

/** A lease whose release the service refuses. */
function refusing(name: string, released: string[]): Lease {
  return {
    name,
    release: () => {
      released.push(name);
      return name === "b"
        ? Promise.reject(new LockSetupError("Cannot release lock", name))
        : Promise.resolve(true);
    },
    throwIfLost() {
      this.signal!.throwIfAborted();
    },
    [Symbol.asyncDispose]: () => Promise.resolve(),
  } as Partial<Lease> as Lease;
}

Deno.test("LeaseSet.release() tries all releases before it rejects; disposal never rejects", async () => {
  const released: string[] = [];
  const set = leaseSetOf(["a", "b", "c"].map((name) => refusing(name, released)));
  await assertRejects(() => set.release(), LockSetupError);
  assertEquals(released, ["a", "b", "c"]);
  await set[Symbol.asyncDispose]();
});

Deno.test("tryAcquireAll() rejects if it gets nothing and a release is refused: null means that none is held", async () => {
  const released: string[] = [];
  const tryAcquire = (name: string) =>
    Promise.resolve(name === "c" ? null : { ...refusing(name, released), signal: NEVER });
  const locks = {
    capabilities: new MemoryLock().capabilities,
    tryAcquire,
  } as Partial<DistributedLock> as DistributedLock;
  await assertRejects(() => tryAcquireAll(locks, ["a", "b", "c"]), LockSetupError);
  assertEquals(await tryAcquireAll(locks, ["a", "c"]), null);
});

Deno.test("acquireAll() that times out rejects with the refusal of a release: one of the locks stays held", async () => {
  const released: string[] = [];
  const acquire = (name: string) =>
    name === "c"
      ? Promise.reject(new LockTimeoutError("c", 20))
      : Promise.resolve({ ...refusing(name, released), signal: NEVER });
  const locks = {
    capabilities: new MemoryLock().capabilities,
    acquire,
  } as Partial<DistributedLock> as DistributedLock;
  await assertRejects(() => acquireAll(locks, ["a", "b", "c"], { waitMs: 20 }), LockSetupError);
  await assertRejects(() => acquireAll(locks, ["a", "c"], { waitMs: 20 }), LockTimeoutError);
});

Deno.test("LeaseSet.throwIfLost() names a lease that was released, but rather one that was lost", async () => {
  await using locks = new MemoryLock();
  const set = await acquireAll(locks, ["a", "b"]);
  await set.leases.get("a")!.release();
  assertThrows(() => set.throwIfLost(), LockError, 'lock "a": it was released');
  await locks.request("b", { steal: true }, () => {});
  assertEquals(assertThrows(() => set.throwIfLost(), LeaseLostError).lockName, "b");
});

Deno.test("requestAll() never runs its callback when a lease is lost in the moment before", async () => {
  await using locks = new MemoryLock();
  const lost = AbortSignal.abort(new LeaseLostError("a", "stolen"));
  let reads = 0;
  const get = () => ++reads > 1 ? lost : NEVER; // held when acquireAll() has looked
  const lease = Object.defineProperty(refusing("a", []), "signal", { get });
  const asked = wrapped(locks, () => Promise.resolve(lease));
  const call = requestAll(asked, ["a"], () => assert(false, "it ran"));
  assertEquals((await assertRejects(() => call, LeaseLostError)).reason, "stolen");
});

Deno.test("acquireAll() leaves no listener at its signal, and awaits no release when that has aborted", async () => {
  await using locks = new MemoryLock();
  const abort = new AbortController();
  const { signal } = abort;
  const listeners = countListeners(signal);
  await (await acquireAll(locks, ["a", "b"], { signal })).release();
  assertEquals(listeners(), 0);
  const never = new Promise<never>(() => {});
  const asked = wrapped(locks, async (name, options) => {
    if (name === "b") return await abortable(never, options!.signal!);
    return { ...refusing(name, []), signal: NEVER, release: () => never };
  });
  const call = acquireAll(asked, ["a", "b"], { signal });
  await settle();
  abort.abort(new Error("enough"));
  const later = new Promise<string>((resolve) => setImmediate(() => resolve("it waits")));
  await assertRejects(() => Promise.race([call, later]), Error, "enough");
  await later;
});

Deno.test("LimitedLease ends its lease before a timer has run, whatever is asked first", async () => {
  const uses: ((lease: LimitedLease) => unknown)[] = [
    (lease) => assert(lease.signal.aborted),
    (lease) => assertEquals([lease.remainingMs, lease.isHeld], [0, false]),
    (lease) => assertThrows(() => lease.throwIfLost(), LeaseLostError),
    (lease) => assertRejects(() => lease.renew(), LeaseLostError),
    async (lease) => assertEquals(await lease.release(), false),
  ];
  for (const use of uses) {
    const { lease, clock, renewals, releases } = openLease();
    const limited = new LimitedLease(lease, clock.now() + 50, clock);
    clock.block(50);
    const used = use(limited);
    assertEquals([limited.signal.reason?.reason, renewals.length], ["max-hold", 0]);
    await settle();
    releases[0]!.answer({ state: "released" });
    await used;
  }
});

Deno.test("LimitedLease ends a lease of a user's own lock by one release, and is lost", async () => {
  const clock = new FakeClock();
  const renewal = Promise.withResolvers<void>();
  const inner = new AbortController().signal;
  const listeners = countListeners(inner);
  let releases = 0;
  const own = {
    ...{ name: "n", ownerId: "me", mode: "exclusive", fencingToken: 1n },
    ...{ signal: inner, remainingMs: Infinity, isHeld: true, throwIfLost: () => {} },
    renew: () => renewal.promise,
    release: () => Promise.resolve(++releases === 1),
  } as Partial<Lease> as Lease;
  const lease = new LimitedLease(own, clock.now() + 50, clock);
  const { signal } = lease;
  const renewed = lease.renew();
  await clock.pass(50);
  assertEquals([signal.reason?.reason, lease.remainingMs, releases], ["max-hold", 0, 1]);
  assertEquals(listeners(), 0);
  const loss = assertThrows(() => lease.throwIfLost(), LeaseLostError);
  assert(loss === signal.reason && releases === 1);
  renewal.reject(new LockError("it was released"));
  await assertRejects(() => renewed, LeaseLostError);
  assertEquals([await lease.release(), clock.timers], [false, 0]);
});

Deno.test("acquireAll() without autoRenew renews what it has while it waits for the next name, and no longer", async () => {
  await using locks = new MemoryLock();
  const someTime = async () => {
    const endMs = performance.now() + 10;
    await waitUntil("some time has passed", () => performance.now() > endMs);
  };
  for (const autoRenew of [false, true, undefined]) {
    let renewals = 0;
    const isRenewed = autoRenew === false;
    const renew = () => Promise.resolve(void renewals++);
    const asked = wrapped(locks, async (name) => {
      if (name === "b" && !isRenewed) await someTime();
      else if (name === "b") {
        // No condition: it must be renewed by now. Its timer is due before this one, however late both are.
        await new Promise((resolve) => setTimeout(resolve, 15));
        assert(renewals > 0, "when half of its time is over");
        await waitUntil("the first is renewed again", () => renewals > 1);
      }
      return { ...refusing(name, []), signal: NEVER, remainingMs: 20, renew };
    });
    await acquireAll(asked, ["a", "b"], { autoRenew });
    const before = renewals;
    await someTime();
    assertEquals([renewals - before, before > 0], [0, isRenewed]);
  }
});

Deno.test("acquireAll() without autoRenew renews a lease once more that is older than the last one, and no other", async () => {
  await using locks = new MemoryLock();
  const leftMs: Record<string, number> = { a: 600, b: 960, c: 1_000 };
  for (const autoRenew of [false, true, undefined]) {
    const renewed: string[] = [];
    const asked = wrapped(locks, (name) => {
      const renew = () => Promise.resolve(void renewed.push(name));
      const lease = { ...refusing(name, []), signal: NEVER, remainingMs: leftMs[name]!, renew };
      return Promise.resolve(lease);
    });
    await acquireAll(asked, ["a", "b", "c"], { autoRenew });
    assertEquals(renewed, autoRenew === false ? ["a"] : []);
  }
});

Deno.test("maxHoldMs of a set ends leases for which a user's own lock hands out proxies", async () => {
  await using locks = new MemoryLock();
  const proxied = wrapped(locks, async (name, options) => {
    return new Proxy(await locks.acquire(name, options), {
      get(lease, key) {
        const value = Reflect.get(lease, key, lease);
        return typeof value === "function" ? value.bind(lease) : value;
      },
    });
  });
  const set = await acquireAll(proxied, ["a", "b"], { maxHoldMs: 50 });
  await within("it ends", aborted(set.signal));
  assertEquals((set.signal.reason as LeaseLostError).reason, "max-hold");
  await (await within("the lock is free", locks.acquire("a"))).release();
});
