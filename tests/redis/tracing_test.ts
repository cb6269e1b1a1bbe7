/**
 * What is published on the channels: a test for each row of the first table of `docs/tracing.md`. Those of
 * the web parts are in `tests/http/tracing_test.ts`.
 */
import "reflect-metadata";
import { assertEquals, assertLess, assertRejects } from "@std/assert";
import { Injectable, Module } from "@nestjs/common";
import { NestFactory } from "@nestjs/core";
import { ScheduleModule, Timeout } from "@nestjs/schedule";
import { Redis } from "ioredis";
import cron from "node-cron";
import { measured } from "../../bench/library/meters.ts";
import { runCoordinator } from "../../adapters/node_cron.ts";
import { countCycle } from "../../tools/metrics/call_counter.ts";
import { FakeClock, FakeLock } from "../../fake/mod.ts";
import { LOCKS, RunOnce } from "../../http/nestjs.ts";
import { openLock } from "../../open/mod.ts";
import { lead, runOnce } from "../../recipes/mod.ts";
import { Redlock } from "../../redlock/mod.ts";
import { webLocks } from "../../web_locks/mod.ts";
import {
  acquireAll,
  type AcquireOptions,
  type LeaseLostReason,
  LockError,
  MemoryLock,
  tryAcquireAll,
} from "../../mod.ts";
import { areCallsTraced, areHoldsTraced } from "../../core/lease/tracing.ts";
import { type TracedEvents, traceEvents } from "../../testing/core/traced_events.ts";
import { assertPublished, documentedRows } from "../../testing/core/tracing_tables.ts";
import { call, openService } from "../../testing/lock_service/lock_service.ts";
import { decorate } from "../../testing/http/nest_server.ts";
import { endIoredis } from "../../testing/redis/clients.ts";
import { play } from "../../testing/redis/race_stage.ts";
import { startRedis } from "../../testing/servers/redis.ts";
import { waitUntil } from "../../testing/servers/wait.ts";
import { ENDING_TTL_MS, KEPT_TTL_MS, LONG_TTL_MS } from "../../testing/time.ts";

/** A scene: prepares, then starts to record, and does what the row says. */
type Scene = (record: () => TracedEvents, locks: FakeLock) => Promise<TracedEvents>;

/** Calls `acquire()` of a held lock. Resolves when it waits, before a timer could tell that it is blocked. */
async function startWait(locks: FakeLock, options: AcquireOptions = {}) {
  const { promise: waits, resolve: onWait } = Promise.withResolvers<unknown>();
  const lease = locks.acquire("n", { ...options, onWait });
  lease.catch(() => {}); // whoever awaits it learns of the error
  await waits;
  return { lease };
}

/** All reasons, for the types know them: one that is missing here is an error of the compiler. */
const REASONS = Object.keys(
  {
    "expired": true,
    "stolen": true,
    "unreachable": true,
    "session-expired": true,
    "max-hold": true,
    "disposed": true,
  } satisfies Record<LeaseLostReason, true>,
) as LeaseLostReason[];

const SCENES: Readonly<Record<string, Scene>> = {
  "`acquire()` of a free lock": async (record, locks) => {
    const events = record();
    await locks.acquire("n");
    return events;
  },
  "`acquire()` that waits": async (record, locks) => {
    const holder = locks.holdElsewhere("n");
    const events = record();
    const { lease } = await startWait(locks);
    holder.release();
    await lease;
    return events;
  },
  "`acquire()` that waits for over 100 ms": async (record, locks) => {
    const holder = locks.holdElsewhere("n", { label: "host-b" });
    const events = record();
    const waiting = locks.acquire("n");
    await waitUntil("the holder is read", () => events.of("blocked").length === 1);
    assertEquals(events.of("blocked")[0]!.holderLabel, "host-b");
    holder.release();
    await waiting;
    return events;
  },
  "`acquire()` whose `waitMs` is over": async (record, locks) => {
    locks.holdElsewhere("n");
    const events = record();
    await assertRejects(() => locks.acquire("n", { waitMs: 20 }), LockError);
    return events;
  },
  "`acquire()` that a signal aborts": async (record, locks) => {
    locks.holdElsewhere("n");
    const events = record();
    const abort = new AbortController();
    const { lease } = await startWait(locks, { signal: abort.signal });
    abort.abort();
    await assertRejects(() => lease);
    return events;
  },
  "`acquire()` in an outage": async (record, locks) => {
    using _outage = locks.startOutage();
    const events = record();
    await assertRejects(() => locks.acquire("n"), LockError);
    assertEquals((events.of("acquire")[0]!.error as LockError).code, "ERR_LOCK_UNAVAILABLE");
    return events;
  },
  "`acquire()` that the service refuses": async (record, locks) => {
    using _refusal = locks.startRefusal();
    const events = record();
    await assertRejects(() => locks.acquire("n"), LockError);
    assertEquals((events.of("acquire")[0]!.error as LockError).code, "ERR_LOCK_SETUP");
    return events;
  },
  "`tryAcquire()` of a held lock": async (record, locks) => {
    locks.holdElsewhere("n");
    const events = record();
    assertEquals(await locks.tryAcquire("n"), null);
    return events;
  },
  "`attach()`": async (record) => {
    let events: TracedEvents | null = null;
    await play(async ({ lock, other }) => {
      const { ownerId } = await lock.acquire("n", { ownerId: "job-7" });
      events = record();
      await other.attach("n", ownerId);
      events = frozen(events);
    });
    return events!;
  },
  "`request()`": async (record, locks) => {
    const events = record();
    await locks.request("n", () => {});
    return events;
  },
  "`request()` with `steal`": async (record, locks) => {
    await locks.acquire("n");
    const events = record();
    await locks.request("n", { steal: true }, () => {});
    return events;
  },
  "`release()`": async (record, locks) => {
    const lease = await locks.acquire("n");
    const events = record();
    await Promise.all([lease.release(), lease.release()]);
    return events;
  },
  "`release()` that the service refuses": async (record, locks) => {
    const lease = await locks.acquire("n");
    using _refusal = locks.startRefusal({ requests: ["release"] });
    const events = record();
    await assertRejects(() => lease.release(), LockError);
    assertEquals((events.of("release")[0]!.error as LockError).code, "ERR_LOCK_SETUP");
    return events;
  },
  "`acquire()` beside other shared holders": async (record, locks) => {
    await locks.acquire("n", { mode: "shared" });
    const events = record();
    const lease = await locks.acquire("n", { mode: "shared" });
    assertEquals(events.of("grant")[0]!.mode, "shared");
    await lease.release();
    return events;
  },
  "`acquire()` that waits for its `limit`": async (record, locks) => {
    const holder = await locks.acquire("n", { limit: 1 });
    const events = record();
    const { lease } = await startWait(locks, { limit: 1 });
    await holder.release();
    await lease;
    return events;
  },
  "`acquireAll()` of two names, and its release": async (record, locks) => {
    const events = record();
    await (await acquireAll(locks, ["a", "b"])).release();
    return events;
  },
  "`acquireAll()` whose `maxHoldMs` is over": async (record, locks) => {
    const events = record();
    const set = await acquireAll(locks, ["a", "b"], { maxHoldMs: 20 });
    await waitUntil("it is over", () => set.signal.aborted);
    await set.release();
    return events;
  },
  "`tryAcquireAll()` of two names, the second one is held": async (record, locks) => {
    locks.holdElsewhere("b");
    const events = record();
    assertEquals(await tryAcquireAll(locks, ["a", "b"]), null);
    return events;
  },
  "a handoff to the next waiter": async (record, locks) => {
    const holder = await locks.acquire("n");
    const events = record();
    const { lease } = await startWait(locks);
    await holder.release();
    await lease;
    return events;
  },
  "a late renewal": async (record) => {
    const clock = new FakeClock();
    const timed = new FakeLock({ clock, ttlMs: 30_000 });
    await timed.acquire("n");
    const events = record();
    timed.startOutage({ requests: ["renew"] });
    await clock.advance(25_000);
    return await disposed(events, timed);
  },
  ...Object.fromEntries(REASONS.map((reason): [string, Scene] => [
    `a lease is lost as \`${reason}\``,
    async (record, locks) => {
      const lease = await locks.acquire("n");
      const events = record();
      locks.loseLease("n", reason);
      await lease.release();
      assertEquals(events.of("lost")[0]!.reason, reason);
      return events;
    },
  ])),
  "`request()` of `webLocks()`": async (record, locks) => {
    const events = record();
    await webLocks(locks).request("n", () => {});
    return events;
  },
  "`request()` of `webLocks()` with `ifAvailable`, of a held lock": async (record, locks) => {
    locks.holdElsewhere("n");
    const events = record();
    await webLocks(locks).request("n", { ifAvailable: true }, () => {});
    return events;
  },
  "`request()` of a lock of `openLock()`": async (record) => {
    await using opened = await openLock("memory:?label=opened");
    const events = record();
    await opened.request("n", () => {});
    assertEquals(events.of("acquire")[0]!.label, "opened");
    return events;
  },
  "`runOnce()`, and the end of its `keepMs`": async (record, locks) => {
    const events = record();
    await runOnce(locks, "n", { keepMs: 20 }, () => {});
    await waitUntil("the lock is free again", () => events.of("release").length > 0);
    return events;
  },
  "`runOnce()` while another process runs it": async (record, locks) => {
    locks.holdElsewhere("n");
    const events = record();
    assertEquals(await runOnce(locks, "n", { keepMs: 20 }, () => {}), { ran: false });
    return events;
  },
  "`lead()`, until its signal aborts": async (record, locks) => {
    const events = record();
    const stop = new AbortController();
    const onChange = () => {};
    await lead(locks, "n", () => stop.abort(), { signal: stop.signal, onChange });
    return events;
  },
  "a run of `@RunOnce()` of NestJS, and the end of its `keepMs`": async (record, locks) => {
    const events = record();
    await using _app = await scheduleOnce(locks);
    await waitUntil("the lock is free again", () => events.of("release").length > 0);
    return events;
  },
  "a run of node-cron by `runCoordinator()`, and the end of its `keepMs`": async (
    record,
    locks,
  ) => {
    const events = record();
    const coordinator = runCoordinator(locks, { keepMs: ENDING_TTL_MS });
    const options = { name: "n", distributed: true, runCoordinator: coordinator };
    const task = cron.schedule("* * * * * *", () => task.destroy(), options);
    await waitUntil("the lock is free again", () => events.of("release").length > 0);
    return events;
  },
  "`PUT` of the lock service": (record) =>
    withServices(async (send) => {
      const events = record();
      await send("PUT", 200);
      return events;
    }),
  "`PUT` of the lock service, of a held lock": (record) =>
    withServices(async (send) => {
      await send("PUT", 200);
      const events = record();
      await send("PUT", 409, { owner: "another" });
      return events;
    }),
  "`PATCH` of the lock service": (record) =>
    withServices(async (send) => {
      await send("PUT", 200);
      const events = record();
      await send("PATCH", 200);
      return events;
    }),
  "`DELETE` of the lock service": (record) =>
    withServices(async (send) => {
      await send("PUT", 200);
      const events = record();
      await send("DELETE", 200);
      assertEquals(events.of("lost")[0]!.reason, "stolen");
      return events;
    }),
  "`DELETE` of the lock service at another server, and the end of the TTL": (record) =>
    withServices(async (send) => {
      await send("PUT", 200, { ttlMs: KEPT_TTL_MS });
      const events = record();
      await send("DELETE", 200, { server: 1 });
      await waitUntil("the first lease ends", () => events.of("lost").length > 0);
      assertEquals(events.of("lost")[0]!.reason, "expired");
      return events;
    }),
  "`using()` of `Redlock`": async (record) => {
    let events: TracedEvents | null = null;
    await withRedlock(async (redlock) => {
      events = record();
      await redlock.using(["n"], 10_000, () => Promise.resolve());
      events = frozen(events);
    });
    return events!;
  },
};

/** Starts an application with a job that runs once. */
async function scheduleOnce(locks: FakeLock): Promise<AsyncDisposable> {
  class Jobs {
    report() {}
  }
  Injectable()(Jobs);
  decorate(Jobs, "report", RunOnce("n", { keepMs: 20 }), Timeout(0));
  class App {}
  const providers = [Jobs, { provide: LOCKS, useValue: locks }];
  Module({ imports: [ScheduleModule.forRoot()], providers })(App);
  const app = await NestFactory.createApplicationContext(App, { logger: false });
  return { [Symbol.asyncDispose]: () => app.close() };
}

interface Sending {
  readonly owner?: string;
  readonly ttlMs?: number;
  readonly server?: 0 | 1;
}

/** Sends a request for the lock `n`, which must be answered with the status. */
type Send = (method: string, status: number, sending?: Sending) => Promise<void>;

/** Two servers of a lock service, on one Redis. */
async function withServices(scene: (send: Send) => Promise<TracedEvents>): Promise<TracedEvents> {
  await using redis = await startRedis();
  await using first = await openService({ redisUrl: redis.url });
  await using second = await openService({ redisUrl: redis.url });
  const events = await scene(async (method, status, sending = {}) => {
    const { owner = "one", ttlMs = LONG_TTL_MS, server = 0 } = sending;
    const body = method === "DELETE" ? undefined : { ttlMs };
    const { url } = [first, second][server]!;
    assertEquals((await call(url, method, `/lock/n/${owner}`, { body })).status, status);
  });
  return frozen(events);
}

/** A `Redlock` on a Redis server. */
async function withRedlock(scene: (redlock: Redlock) => Promise<void>): Promise<void> {
  await using server = await startRedis();
  const client = new Redis(server.url);
  const redlock = new Redlock([client]);
  try {
    await scene(redlock);
  } finally {
    await redlock.quit();
    await endIoredis(client);
  }
}

Deno.test("calls of one instance that wait for one lock share the query for its holder", async () => {
  await using locks = new FakeLock({ disposeTimeoutMs: 0 });
  locks.holdElsewhere("n", { label: "host-b" });
  using events = traceEvents();
  locks.holdElsewhere("m");
  using late = locks.delayAnswers(undefined, { requests: ["query"] });
  const calls = [...Array<string>(16).fill("n"), "m"].map((name) => locks.acquire(name));
  for (const call of calls) call.catch(() => {});
  // Each asks 100 ms after its wait began: the last one after the others, and no answer is there yet.
  await waitUntil("the last one asks", () => locks.counts("m").query > 0);
  late.end();
  await waitUntil("all know the holder", () => events.of("blocked").length === calls.length);
  assertEquals(locks.counts("n").query, 1);
});

/** The events until now. */
function frozen(events: TracedEvents): TracedEvents {
  const order = events.order();
  return { ...events, order: () => order };
}

async function disposed(events: TracedEvents, locks: FakeLock): Promise<TracedEvents> {
  const until = frozen(events);
  await locks[Symbol.asyncDispose]();
  return until;
}

const ROWS = documentedRows("what happens");

Deno.test("docs/tracing.md has a row for each scene", () => {
  assertEquals([...ROWS.keys()], Object.keys(SCENES));
});

for (const [what, scene] of Object.entries(SCENES)) {
  Deno.test(`the channels tell once: ${what}`, async () => {
    const locks = new FakeLock({ label: "test", disposeTimeoutMs: 0 });
    let events: TracedEvents | undefined;
    try {
      const order = (await scene(() => events = traceEvents(), locks)).order();
      assertPublished(order, ROWS.get(what)![0]!);
    } finally {
      events?.[Symbol.dispose]();
      await locks[Symbol.asyncDispose]();
    }
  });
}

Deno.test("without subscribers a cycle makes no object for the channels, and asks twice whether there are any", async () => {
  await using locks = new MemoryLock();
  const run = async (cycles: number) => {
    for (let i = 0; i < cycles; i++) await (await locks.acquire("n")).release();
  };
  const { calls, objects } = await countCycle(run, 200);
  const traced = traceEvents();
  const counted = await countCycle(run, 200);
  traced[Symbol.dispose]();
  assertEquals([areCallsTraced(), areHoldsTraced()], [false, false]);
  const again = await countCycle(run, 200);
  assertEquals([again.calls, again.objects], [calls, objects]);
  assertEquals(counted.objects, objects + 1); // a CallTrace
});

Deno.test("whether somebody listens is asked without an allocation", async () => {
  const ask = async () => {
    for (let i = 0; i < 100_000; i++) if (areCallsTraced() || areHoldsTraced()) throw new Error();
    await null;
  };
  const bytes: number[] = [];
  for (let i = 0; i < 9; i++) bytes.push((await measured(ask)).allocatedBytes);
  // The runtime, too, may allocate in some of them. An object has 12 bytes at least.
  assertLess(Math.min(...bytes), 500_000, "bytes for 100,000 questions");
});
