/** The channels, where strategies do not matter. What each strategy publishes is in the conformance suite. */
import { assert, assertEquals, assertRejects } from "@std/assert";
import { AsyncLocalStorage } from "node:async_hooks";
import { subscribe, unsubscribe } from "node:diagnostics_channel";
import { RUN_CALL, type Runnable } from "../../core/contract/channels.ts";
import type { ReleaseAnswer } from "../../core/lease/grant.ts";
import {
  type AcquireEvent,
  CHANNELS,
  type HoldEvent,
  LockSetupError,
  type LockSnapshot,
  LockTimeoutError,
  MemoryLock,
} from "../../mod.ts";
import { within } from "../../testing/conformance/bounds.ts";
import { settle } from "../../testing/core/fake_clock.ts";
import { openLease, PROVABLE_MS } from "../../testing/core/fake_service.ts";
import { traceEvents } from "../../testing/core/traced_events.ts";
import { collectRejections } from "../../testing/runtime/reports.ts";
import { waitUntil } from "../../testing/servers/wait.ts";

/** What a subscriber may do with a call that it is to run. */
const RUNS: NonNullable<Runnable[typeof RUN_CALL]>[] = [
  (call) => call(),
  (call) => void call() as never,
  (call) => (call(), call()),
  () => undefined as never,
];

Deno.test("a traced call is made once, whatever the subscriber's function that runs it returns", async () => {
  await using locks = new MemoryLock();
  for (const run of RUNS) {
    const listener = (event: unknown) => void ((event as Runnable)[RUN_CALL] = run);
    subscribe(`tracing:${CHANNELS.acquire}:start`, listener);
    const lease = await within("it is granted", locks.acquire("n"));
    unsubscribe(`tracing:${CHANNELS.acquire}:start`, listener);
    assertEquals((await locks.query("n")).holderCount, 1);
    assertEquals(await lease.release(), true);
    assertEquals((await locks.query("n")).holderCount, 0);
  }
});

Deno.test("a traced call that rejects leaves no unhandled rejection, whatever its subscriber does with the promise", async () => {
  await using locks = new MemoryLock();
  await using _held = await locks.acquire("n");
  using reports = collectRejections();
  for (const run of RUNS) {
    const listener = (event: unknown) => void ((event as Runnable)[RUN_CALL] = run);
    subscribe(`tracing:${CHANNELS.acquire}:start`, listener);
    await assertRejects(() => locks.acquire("n", { waitMs: 0 }), LockTimeoutError);
    unsubscribe(`tracing:${CHANNELS.acquire}:start`, listener);
  }
  // No condition: nothing shows that a rejection will not be reported. It would be, after the microtasks.
  await new Promise((resolve) => setTimeout(resolve, 0));
  assertEquals(reports.messages, []);
});

/** The channels of a call. */
const OF_CALLS: string[] = [
  ...["start", "end", "asyncStart", "asyncEnd", "error"].map((when) =>
    `tracing:${CHANNELS.acquire}:${when}`
  ),
  ...[CHANNELS.wait, CHANNELS.blocked, CHANNELS.grant],
];

Deno.test("a call is traced, with the time until then, if somebody listens to any one of its channels", async () => {
  for (const channel of OF_CALLS) {
    await using locks = new MemoryLock();
    const held = await locks.acquire("n");
    const calls: AcquireEvent[] = [];
    const listener = (event: unknown) => {
      const { call = event } = event as { call?: unknown }; // a grant tells of its call
      calls.push({ ...call as AcquireEvent });
    };
    subscribe(channel, listener);
    const startMs = performance.now();
    await assertRejects(() => locks.acquire("n", { waitMs: 1 }), LockTimeoutError);
    let sinceMs = Infinity;
    const waiting = locks.acquire("n", { onWait: () => void (sinceMs = performance.now()) });
    await waitUntil("it has waited", () => {
      return channel === CHANNELS.blocked ? calls.length > 0 : performance.now() > sinceMs + 5;
    });
    await held.release();
    await (await waiting).release();
    unsubscribe(channel, listener);
    assert(calls.length > 0, channel);
    const { waitedMs } = calls.at(-1)!;
    assert(waitedMs <= performance.now() - startMs, `${channel}: ${waitedMs} ms`);
    if (channel.endsWith(":start")) assertEquals(waitedMs, 0);
    if (/grant|asyncEnd/.test(channel)) assert(waitedMs >= 5, `${channel}: ${waitedMs} ms`);
  }
});

Deno.test("a lease tells of one loss or one release, and how long it was held, whichever channel has a subscriber", async () => {
  const told: HoldEvent[] = [];
  const listener = (event: unknown) => void told.push({ ...event as HoldEvent });
  for (const channel of ["renewalLate", "lost", "release"] as const) {
    subscribe(CHANNELS[channel], listener);
    const { clock, lease, releases } = openLease({ autoRenew: channel === "renewalLate" });
    await clock.pass(channel === "renewalLate" ? PROVABLE_MS - 1_000 : 500);
    if (channel === "lost") lease.lose("stolen");
    if (channel === "release") {
      const released = lease.release();
      await settle();
      releases[0]!.answer({ state: "released" });
      await released;
    }
    unsubscribe(CHANNELS[channel], listener);
  }
  assertEquals(told.map(({ heldMs }) => heldMs), [PROVABLE_MS - 1_000, 500, 500]);
  assertEquals(told[0]!.remainingMs, 1_000);

  using events = traceEvents();
  const end = async (answer: ReleaseAnswer, isDisposed = false) => {
    const { engine, lease, releases } = openLease({ autoRenew: false });
    const closed = isDisposed ? engine.close(8_000) : Promise.resolve();
    const released = lease.release().catch(() => {});
    await settle();
    releases[0]!.answer(answer);
    await Promise.all([released, closed]);
  };
  await end({ state: "released" });
  await end({ state: "gone", reason: "stolen" });
  await end({ state: "refused", reason: "no right", cause: undefined });
  await end({ state: "released" }, true);
  const ends = events.order().filter((channel) => channel !== "grant");
  assertEquals(ends, ["release", "lost", "release", "lost"]);
  const [plain, refused] = events.of("release");
  assertEquals(["error" in plain!, refused!.error instanceof LockSetupError], [false, true]);
});

Deno.test("a call that may wait publishes its wait once, and one that tries once does not", async () => {
  await using locks = new MemoryLock();
  const held = await locks.acquire("n");
  using events = traceEvents();
  const cases = [
    ["acquire", 1, 1],
    ["tryAcquire", 1, 1],
    ["acquire", 0, 0],
    ["tryAcquire", 0, 0],
    ["tryAcquire", undefined, 0],
  ] as const;
  for (const [method, waitMs, waits] of cases) {
    const before = events.of("wait").length;
    let told = 0;
    const options = { waitMs, onWait: () => void told++ };
    await Promise.allSettled([locks[method]("n", options)]);
    assertEquals([events.of("wait").length - before, told], [waits, 1], `${method} ${waitMs}`);
  }
  const before = events.of("wait").length;
  const places: unknown[] = [];
  const first = locks.acquire("n");
  const second = locks.acquire("n", { onWait: ({ position }) => void places.push(position) });
  await held.release();
  await waitUntil("its place has changed", () => places.at(-1) === 1);
  await (await first).release();
  await (await second).release();
  const waits = events.of("wait").slice(before);
  assertEquals(waits.map(({ position, waiters }) => [position, waiters]), [[1, 1], [2, 2]]);
});

Deno.test("calls that wait for one lock read its holder once, if they still wait then, and tell of it if they wait on", async () => {
  await using locks = new MemoryLock();
  const held = [await locks.acquire("n"), await locks.acquire("m")];
  const asked: string[] = [];
  const answer = Promise.withResolvers<LockSnapshot>();
  locks.query = (name) => {
    asked.push(name);
    return answer.promise;
  };
  const onWait = () => {};
  subscribe(CHANNELS.wait, onWait);
  const untold = locks.acquire("m"); // nobody wants to know its holder
  unsubscribe(CHANNELS.wait, onWait);
  using events = traceEvents();
  const abort = new AbortController();
  const left = locks.acquire("m", { signal: abort.signal });
  const calls = [locks.acquire("n"), locks.acquire("n")];
  await waitUntil("all wait", () => events.of("wait").length === 3);
  abort.abort(new Error("enough"));
  await assertRejects(() => left, Error, "enough");
  // No condition: the others must not ask. Their timers are due before this one, however late all are.
  await new Promise((resolve) => setTimeout(resolve, 101));
  assertEquals(asked, ["n"]);
  await held[0]!.release();
  const first = await calls[0]!;
  answer.resolve({
    name: "n",
    holders: [{ mode: "exclusive" }],
    holderCount: 1,
    waiters: [],
    waiterCount: 1,
  });
  await waitUntil("the holder is told", () => events.of("blocked").length > 0);
  assertEquals(events.of("blocked").length, 1, "only the second call still waits");
  await first.release();
  await (await calls[1]!).release();
  await held[1]!.release();
  await (await untold).release();
});

Deno.test("a traced lease is renewed outside of the call in which its timer was set", async () => {
  using _events = traceEvents();
  const call = new AsyncLocalStorage<string>();
  const seen: unknown[] = [];
  const { clock } = openLease({}, {
    renew: () => {
      seen.push(call.getStore());
      return new Promise(() => {});
    },
  });
  await call.run("a call", () => clock.pass(990));
  assertEquals(seen, [undefined]);
});
