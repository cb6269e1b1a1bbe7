/** The recipes on locks in memory, and what no strategy matters to. */
import { assert, assertEquals, assertInstanceOf, assertRejects } from "@std/assert";
import { BACKGROUND_CLOCK, SYSTEM_CLOCK } from "../../core/time/clock.ts";
import { FakeClock, FakeLock } from "../../fake/mod.ts";
import {
  type DistributedLock,
  type Lease,
  LeaseLostError,
  LockUnavailableError,
  MemoryLock,
} from "../../mod.ts";
import { lead, type LeaderChange, runOnce, type RunOnceOptions } from "../../recipes/mod.ts";
import { aborted, block, within } from "../../testing/conformance/bounds.ts";
import { recipes } from "../../testing/recipes/suite.ts";
import { waitUntil } from "../../testing/servers/wait.ts";
import { ENDING_TTL_MS, scaled } from "../../testing/time.ts";

const nothing = () => Promise.resolve();

recipes({
  name: "memory",
  start: nothing,
  stop: nothing,
  arena() {
    const locks = new MemoryLock();
    return Promise.resolve({
      client: () => Promise.resolve(locks),
      lose: ({ name }) => locks.request(name, { steal: true }, () => {}),
      residue: () => Promise.resolve([]),
      spec() {
        throw new Error("Memory is not shared with other processes");
      },
      [Symbol.asyncDispose]: () => locks[Symbol.asyncDispose](),
    });
  },
});

Deno.test("runOnce() and lead() refuse bad arguments before they ask for the lock", async () => {
  await using locks = new MemoryLock();
  const bad: [unknown, new (...args: never[]) => Error, string][] = [
    [{}, TypeError, "'keepMs'"],
    [{ keepMs: "1" }, TypeError, "'keepMs'"],
    [{ keepMs: 9 }, RangeError, "'keepMs'"],
    [{ keepMs: 10, tick: 1_700_000_000_000 }, TypeError, "'tick': it must be a Date"],
    [{ keepMs: 10, tick: new Date(NaN) }, RangeError, "'tick': it must be a valid Date"],
    [{ keepMs: 10, ttlMs: 10 }, TypeError, "'ttlMs'"],
    [{ keepMs: 10, maxHoldMs: 9 }, RangeError, "'maxHoldMs'"],
  ];
  for (const [options, error, message] of bad) {
    const run = () => runOnce(locks, "a", options as RunOnceOptions, () => "ran");
    await assertRejects(run, error, message);
  }
  const work = () => "ran";
  await assertRejects(() => runOnce(locks, "", { keepMs: 10 }, work), RangeError, "lock name");
  await assertRejects(() => runOnce(locks, "a", { keepMs: 10 }, null as never), TypeError, "work");
  await assertRejects(() => lead(locks, "a", undefined as never), TypeError, "the work");
  await assertRejects(() => lead(locks, "", work), RangeError, "lock name");
  await assertRejects(() => lead(locks, "a", work, { signal: 1 as never }), TypeError, "'signal'");
  assertEquals((await locks.query("a")).holders, []);
});

Deno.test("runOnce() with a tick, and a keepMs of one and a half periods, runs it once for processes at any time of it", async () => {
  await using locks = new MemoryLock();
  const periodMs = scaled(100);
  const runs = new Map<number, number>();
  const oneMore = async () => {
    const tick = new Date(Math.round(Date.now() / periodMs) * periodMs);
    await runOnce(locks, "a", { keepMs: 1.5 * periodMs, tick }, () => {
      runs.set(tick.getTime(), (runs.get(tick.getTime()) ?? 0) + 1);
    });
    return runs.size > 3;
  };
  await waitUntil("three periods are over", oneMore);
  assertEquals([...runs.values()], [1, 1, 1, 1]);
});

Deno.test("runOnce() rejects in an outage, and never runs the work without the lock", async () => {
  await using locks = new MemoryLock();
  locks.tryAcquire = () => Promise.reject(new LockUnavailableError("Cannot reach the service"));
  let runs = 0;
  const run = () => runOnce(locks, "a", { keepMs: 1_000 }, () => runs++);
  await assertRejects(run, LockUnavailableError);
  assertEquals(runs, 0);
});

Deno.test("runOnce() does not run if the lock is granted later than keepMs after the call", async () => {
  await using locks = new MemoryLock();
  const tryAcquire = locks.tryAcquire.bind(locks);
  locks.tryAcquire = async (name, options) => {
    const endMs = performance.now() + 20;
    // No condition: the call takes longer than keepMs by itself.
    while (performance.now() < endMs) await new Promise((resolve) => setTimeout(resolve, 5));
    return await tryAcquire(name, options);
  };
  assertEquals(await runOnce(locks, "a", { keepMs: 10 }, () => {}), { ran: false });
  assertEquals((await locks.query("a")).holders, []);
});

Deno.test("runOnce() ends its lease after maxHoldMs, while the work hangs", async () => {
  await using locks = new MemoryLock();
  const run = () =>
    runOnce(locks, "a", { keepMs: ENDING_TTL_MS, maxHoldMs: ENDING_TTL_MS }, async ({ signal }) => {
      await within("the lease is lost", aborted(signal));
      assertEquals((await locks.query("a")).holders, []);
    });
  const loss = await assertRejects(run, LeaseLostError);
  assertEquals(loss.reason, "max-hold");
});

Deno.test("runOnce() keeps the lock until keepMs although its timer fires early", async () => {
  await using locks = new MemoryLock();
  const { schedule } = BACKGROUND_CLOCK;
  BACKGROUND_CLOCK.schedule = (callback, delayMs) => schedule(callback, delayMs / 2);
  try {
    const keepMs = scaled(500);
    const startMs = performance.now();
    await runOnce(locks, "a", { keepMs }, () => {});
    await waitUntil("it is free", async () => (await locks.query("a")).holderCount === 0);
    assert(performance.now() >= startMs + keepMs);
  } finally {
    BACKGROUND_CLOCK.schedule = schedule;
  }
});

Deno.test("lead() waits for the lock again after an outage", async () => {
  await using locks = new MemoryLock();
  const acquire = locks.acquire.bind(locks);
  let calls = 0;
  locks.acquire = (name, options) => {
    calls++;
    if (calls < 3) return Promise.reject(new LockUnavailableError("Cannot reach the service"));
    return acquire(name, options);
  };
  const stop = new AbortController();
  await lead(locks, "a", () => stop.abort(), { signal: stop.signal });
  assertEquals(calls, 3);
});

/** One term: the reason that `onChange` gets, and the errors of the warnings. */
async function termOf(
  locks: DistributedLock,
  work: (stop: AbortController) => unknown,
  listens = true,
): Promise<{ reason: unknown; warned: unknown[] }> {
  const stop = new AbortController();
  let reason: unknown;
  const onChange = (change: LeaderChange) => {
    if (change.state === "lost") reason = change.reason;
  };
  const warned: unknown[] = [];
  const target = console; // that of the recipe
  const { warn } = target;
  target.warn = (_text: string, error: unknown) => void warned.push(error);
  try {
    const options = { signal: stop.signal, onChange: listens ? onChange : undefined };
    await lead(locks, "a", () => work(stop), options);
  } finally {
    target.warn = warn;
  }
  return { reason, warned };
}

Deno.test("lead() passes an error of the work to onChange, or else warns of it, also after the end or a loss", async () => {
  await using locks = new MemoryLock();
  const error = new RangeError("the last flush has failed");
  const steal = () => locks.request("a", { steal: true }, () => {});
  const failAtEnd = (stop: AbortController) => {
    stop.abort();
    throw error;
  };
  assertEquals(await termOf(locks, failAtEnd), { reason: error, warned: [] });
  assertEquals(await termOf(locks, failAtEnd, false), { reason: undefined, warned: [error] });
  const { reason, warned } = await termOf(locks, (stop) => steal().then(() => failAtEnd(stop)));
  assertInstanceOf(reason, LeaseLostError);
  assertEquals(warned, [error], "onChange was told of the loss before");
});

Deno.test("lead() does not warn of its end or of a loss, nor of errors of the work that stem from them", async () => {
  await using locks = new MemoryLock();
  const steal = () => locks.request("a", { steal: true }, () => {});
  const works: ((stop: AbortController) => unknown)[] = [
    (stop) => stop.abort(),
    (stop) => steal().then(() => stop.abort()),
    (stop) => {
      stop.abort();
      throw stop.signal.reason;
    },
    (stop) => {
      stop.abort();
      throw new Error("the request was aborted", { cause: stop.signal.reason });
    },
    (stop) => {
      stop.abort();
      throw Object.assign(new Error("canceled"), { name: "CanceledError" }); // of axios
    },
  ];
  for (const work of works) {
    assertEquals(await termOf(locks, work, false), { reason: undefined, warned: [] });
  }
});

Deno.test("lead() begins no work when its signal aborts just after the grant", async () => {
  await using locks = new MemoryLock();
  const holder = await locks.acquire("n");
  const stop = new AbortController();
  const changes: string[] = [];
  const leading = lead(locks, "n", () => void changes.push("work"), {
    signal: stop.signal,
    onChange: ({ state }) => void changes.push(state),
  });
  await waitUntil("it waits", () => changes.length === 1);
  await holder.release();
  stop.abort();
  await leading;
  assertEquals(changes, ["waiting"]);
});

Deno.test("lead() and runOnce() begin no work under a lease that is lost just after the grant", async () => {
  await using locks = new FakeLock();
  const { acquire, tryAcquire } = locks;
  const stop = new AbortController();
  let isFirst = true;
  const lost = (lease: Lease) => {
    if (isFirst) locks.loseLease("n", "expired");
    isFirst = false;
    return lease;
  };
  locks.acquire = async (...args) => lost(await acquire.apply(locks, args));
  locks.tryAcquire = async (...args) => lost((await tryAcquire.apply(locks, args))!);
  await assertRejects(
    () => runOnce(locks, "n", { keepMs: 1_000 }, () => assert(false)),
    LeaseLostError,
  );
  isFirst = true;
  let terms = 0;
  await lead(locks, "n", (lease) => {
    terms++;
    lease.throwIfLost();
    stop.abort();
  }, { signal: stop.signal });
  assertEquals(terms, 1);
});

Deno.test("lead() tells a loss that comes while its work blocks the event loop", async () => {
  await using locks = new FakeLock({ ttlMs: 50 });
  const { reason } = await termOf(locks, (stop) => {
    block(100);
    stop.abort();
  });
  assertInstanceOf(reason, LeaseLostError);
});

Deno.test("runOnce() does not run if the machine slept for keepMs during the call", async () => {
  await using locks = new MemoryLock();
  const tryAcquire = locks.tryAcquire.bind(locks);
  const { wall } = SYSTEM_CLOCK;
  let sleptMs = 0;
  SYSTEM_CLOCK.wall = () => wall() + sleptMs;
  locks.tryAcquire = (name, options) => {
    sleptMs = 60_000; // the monotonic clock stands still
    return tryAcquire(name, options);
  };
  try {
    assertEquals(await runOnce(locks, "a", { keepMs: 30_000 }, () => "ran"), { ran: false });
    assertEquals((await locks.query("a")).holders, []);
  } finally {
    SYSTEM_CLOCK.wall = wall;
  }
});

Deno.test("lead() begins the work when a lease that a suspension has left unproven is proven", async () => {
  const clock = new FakeClock();
  await using locks = new FakeLock({ clock, ttlMs: 3_000 });
  const acquire = locks.acquire.bind(locks);
  const suspensionsMs = [6_000, 1_500]; // it is lost, then only unproven
  locks.acquire = async (...args) => {
    const lease = await acquire(...args);
    clock.suspend(suspensionsMs.shift()!); // between the request for the lock and its answer
    return lease;
  };
  const stop = new AbortController();
  const held: boolean[] = [];
  await lead(locks, "n", (lease) => {
    held.push(lease.isHeld);
    stop.abort();
  }, { signal: stop.signal });
  assertEquals([held, suspensionsMs], [[true], []]);
});

Deno.test("lead() begins no work when its signal aborts while a lease is proven", async () => {
  const clock = new FakeClock();
  await using locks = new FakeLock({ clock, ttlMs: 3_000 });
  const acquire = locks.acquire.bind(locks);
  const stop = new AbortController();
  locks.acquire = async (...args) => {
    const lease = await acquire(...args);
    locks.startOutage({ requests: ["renew"] });
    clock.suspend(1_500);
    setTimeout(() => stop.abort(), 0); // when the lease is asked for
    return lease;
  };
  let hasRun = false;
  const leading = lead(locks, "n", () => void (hasRun = true), { signal: stop.signal });
  await within("it ends", leading);
  assertEquals(hasRun, false);
});

Deno.test("runOnce() begins the work under a lease that a suspension has left unproven only when it is proven", async () => {
  for (const isLost of [true, false]) {
    const clock = new FakeClock();
    await using locks = new FakeLock({ clock, ttlMs: 3_000 });
    const tryAcquire = locks.tryAcquire.bind(locks);
    locks.tryAcquire = async (...args) => {
      const lease = await tryAcquire(...args);
      clock.suspend(isLost ? 1_000_000 : 500); // between the request for the lock and its answer
      return lease;
    };
    const held: boolean[] = [];
    const call = runOnce(
      locks,
      "n",
      { keepMs: scaled(1_000) },
      (lease) => void held.push(lease.isHeld),
    );
    if (isLost) await assertRejects(() => call, LeaseLostError);
    else await call;
    assertEquals(held, isLost ? [] : [true]);
  }
});
