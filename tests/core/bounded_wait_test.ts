/**
 * Who says why a bounded wait has failed. The waits on servers are in `tests/redis` and `tests/zookeeper`.
 */
import { assertEquals } from "@std/assert";
import type { AcquireOptions, LockMode } from "../../core/contract/distributed_lock.ts";
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
