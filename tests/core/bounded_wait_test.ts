/**
 * Who says why a bounded wait has failed. The waits on servers are in `tests/redis` and `tests/zookeeper`.
 */
import { assertEquals, assertRejects, assertStringIncludes } from "@std/assert";
import type {
  AcquireOptions,
  Lease,
  LockMode,
  LockSnapshot,
} from "../../core/contract/distributed_lock.ts";
import { LockTimeoutError } from "../../core/contract/errors.ts";
import { BoundedWaits } from "../../core/time/bounded_wait.ts";
import { abortable, pause } from "../../core/time/clock.ts";
import { FakeClock } from "../../testing/core/fake_clock.ts";

Deno.test("BoundedWaits reports why the strategy's look has failed, also if its limit is late on a busy machine", async () => {
  const clock = new FakeClock();
  const unanswered = (_name: string, { signal }: AcquireOptions) =>
    abortable(new Promise<never>(() => {}), signal!);
  const waits = new BoundedWaits({
    wait: unanswered,
    tryOnce: unanswered,
    look: async () => {
      await pause(clock, 1_200);
      throw new Error("the connection was refused");
    },
  }, clock);
  const outcome = waits.acquire("n", { waitMs: 1 }).catch((error) => error);
  await clock.pass(3_000);
  assertEquals((await outcome).message, "the connection was refused");
  assertEquals(clock.timers, 0);
});

Deno.test("BoundedWaits takes no shared holders for the reason why a shared call was not answered", async () => {
  const outcomeOf = async (options: AcquireOptions, holderMode: LockMode, waiterCount = 0) => {
    const clock = new FakeClock();
    const unanswered = (_name: string, { signal }: AcquireOptions) =>
      abortable(new Promise<never>(() => {}), signal!);
    const holders = [{ mode: holderMode }, { mode: holderMode }];
    const waits = new BoundedWaits({
      wait: unanswered,
      tryOnce: unanswered,
      look: (name) => {
        return Promise.resolve({ name, holders, holderCount: 2, waiters: [], waiterCount });
      },
    }, clock);
    const call = { ...options, waitMs: 1 };
    const outcome = waits.tryAcquire("n", call).catch(({ name }) => name);
    await clock.pass(3_000);
    return await outcome;
  };
  const shared = { mode: "shared" } as const;
  assertEquals(await outcomeOf(shared, "shared"), "LockUnavailableError");
  assertEquals(await outcomeOf({ limit: 3 }, "shared"), "LockUnavailableError");
  assertEquals(await outcomeOf({ limit: 2 }, "shared"), null);
  assertEquals(await outcomeOf(shared, "shared", 1), null);
  assertEquals(await outcomeOf(shared, "exclusive"), null);
  assertEquals(await outcomeOf({}, "shared"), null);
});

function snapshot(name: string, holderCount = 1): LockSnapshot {
  const holders: LockSnapshot["holders"] = holderCount === 0
    ? []
    : [{ mode: "exclusive", label: "host-b" }];
  return { name, holders, holderCount, waiters: [], waiterCount: 0 };
}

Deno.test("BoundedWaits looks at a lock once at the end of a wait in vain, and never if it was granted", async () => {
  const clock = new FakeClock();
  const lease = { name: "free" } as Lease;
  const asked: string[] = [];
  let lookMs = 0;
  const waits = new BoundedWaits({
    wait: (name: string, { signal, onWait }: AcquireOptions): Promise<Lease> => {
      asked.push("wait");
      if (name === "free") return Promise.resolve(lease);
      onWait!({ position: 1 });
      return abortable(new Promise<never>(() => {}), signal!);
    },
    tryOnce: (name: string, _options: AcquireOptions, withinMs: number) => {
      asked.push(`try within ${withinMs} ms`);
      return Promise.resolve(name === "free" ? lease : null);
    },
    look: async (name: string) => {
      asked.push("look");
      if (lookMs > 0) await pause(clock, lookMs);
      return snapshot(name);
    },
  }, clock);
  const cases: [name: string, waitMs: number, asked: string[], told: number][] = [
    ["free", 5, ["wait"], 0],
    ["held", 5, ["wait", "look"], 1],
    ["free", 0, ["try within 1000 ms"], 0],
    ["held", 0, ["try within 1000 ms"], 0],
  ];
  for (const [name, waitMs, expected, times] of cases) {
    asked.length = 0;
    let told = 0;
    const outcome = waits.tryAcquire(name, { waitMs, onWait: () => void told++ });
    await clock.pass(waitMs);
    assertEquals((await outcome)?.name, name === "free" ? "free" : undefined);
    assertEquals([asked, told], [expected, times]);
  }
  asked.length = 0;
  const refused = assertRejects(() => waits.acquire("held", { waitMs: 100 }), LockTimeoutError);
  await clock.pass(100);
  const { waitedMs, holderLabel } = await refused;
  assertEquals([waitedMs, holderLabel, asked], [100, "host-b", ["wait", "look"]]);
  asked.length = 0;
  lookMs = 10;
  const both = Promise.all([1, 2].map(() => waits.tryAcquire("held", { waitMs: 5 })));
  await clock.pass(20);
  assertEquals([await both, asked], [[null, null], ["wait", "wait", "look"]]);
  assertEquals(clock.timers, 0);
});

Deno.test("BoundedWaits still takes a grant, or the first answer, that comes while it looks why there was none", async () => {
  const outcomeOf = async (late: "grant" | "answer" | "none", holderCount: number, waitMs = 5) => {
    const clock = new FakeClock();
    const granted = Promise.withResolvers<Lease>();
    let answer = () => {};
    const unanswered = (_name: string, { signal, onWait }: AcquireOptions) => {
      answer = () => onWait!({ position: 1 });
      return abortable(granted.promise, signal!);
    };
    const waits = new BoundedWaits({
      wait: unanswered,
      tryOnce: unanswered,
      look: async (name) => {
        await pause(clock, 50);
        if (late === "grant") throw new Error("the look has failed");
        return snapshot(name, holderCount);
      },
    }, clock);
    let outcome: unknown = "pending";
    waits.tryAcquire("n", { waitMs }).then(
      (lease) => outcome = lease?.name ?? null,
      ({ message }) => outcome = message,
    );
    await clock.pass(30);
    if (late === "grant") granted.resolve({ name: "granted" } as Lease);
    if (late === "answer") answer();
    await clock.pass(late === "none" ? 4_000 : 100);
    return outcome;
  };
  assertEquals(await outcomeOf("grant", 1), "granted");
  assertEquals(await outcomeOf("answer", 1), null);
  assertEquals(await outcomeOf("answer", 0), null);
  assertEquals(await outcomeOf("none", 1), null);
  const [free, tried] = [await outcomeOf("none", 0), await outcomeOf("none", 1, 0)];
  assertStringIncludes(String(free), "this process could not send the call in time");
  assertStringIncludes(String(tried), "the service has not answered in time");
});
