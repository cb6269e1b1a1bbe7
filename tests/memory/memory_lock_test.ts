import { assert, assertEquals, assertThrows } from "@std/assert";
import { type LeaseLostError, MemoryLock, type StrategyOptions } from "../../mod.ts";
import { within } from "../../testing/conformance/bounds.ts";
import { startChild } from "../../testing/processes/child.ts";

Deno.test("MemoryLock numbers the fencing tokens of all names from 1", async () => {
  await using locks = new MemoryLock();
  await using a = await locks.acquire("a");
  await using b = await locks.acquire("b");
  assertEquals([a.fencingToken, b.fencingToken], [1n, 2n]);
  assertEquals(a.remainingMs, Infinity);
});

Deno.test("MemoryLock.request() with steal goes ahead of the waiters, who keep their order", async () => {
  await using locks = new MemoryLock();
  const victim = await locks.acquire("n");
  const order: string[] = [];
  const waits = ["first", "second"].map(async (name) => {
    await using _lease = await locks.acquire("n");
    order.push(name);
  });
  await locks.request("n", { steal: true }, async (lease) => {
    lease!.throwIfLost();
    assertEquals((victim.signal.reason as LeaseLostError).reason, "stolen");
    assertEquals(await victim.release(), false);
    assertEquals((await locks.query("n")).waiters.length, 2);
    order.push("thief");
  });
  await Promise.all(waits);
  assertEquals(order, ["thief", "first", "second"]);
});

Deno.test("MemoryLock grants the lock to a caller whose onWait is an async function that rejects", async () => {
  await using locks = new MemoryLock();
  const held = await locks.acquire("n");
  const told = Promise.withResolvers<void>();
  const wait = locks.acquire("n", {
    // deno-lint-ignore require-await -- it rejects, and nobody awaits it
    onWait: async () => {
      told.resolve();
      throw new Error("the log is out of reach");
    },
  });
  await within("it is told", told.promise);
  await held.release();
  await (await within("the waiter is granted", wait)).release();
});

Deno.test("MemoryLock.acquire() reports the position of each waiter", async () => {
  await using locks = new MemoryLock();
  const first = await locks.acquire("n");
  const places: unknown[] = [];
  const waits = [1, 2, 3].map(() => locks.acquire("n", { onWait: (info) => places.push(info) }));
  await first.release();
  for (const wait of waits) await (await wait).release();
  assertEquals(places, [1, 2, 3].map((position) => ({ position, waiters: position })));
});

Deno.test("MemoryLock does not exclude holders of another instance", async () => {
  await using one = new MemoryLock();
  await using other = new MemoryLock();
  await using _lease = await one.acquire("n");
  await using lease = await other.tryAcquire("n");
  assert(lease !== null);
});

Deno.test("new MemoryLock() throws when an option is bad", () => {
  const bad: [unknown, typeof TypeError | typeof RangeError][] = [
    [{ label: 7 }, TypeError],
    [{ label: "x".repeat(101) }, RangeError],
    [{ disposeTimeoutMs: -1 }, RangeError],
    [{ disposeTimeoutMs: "1" }, TypeError],
  ];
  for (const [options, type] of bad) {
    assertThrows(() => new MemoryLock(options as StrategyOptions), type);
  }
});

Deno.test("MemoryLock.request() never runs its callback when the lock is disposed in the tick of the grant", async () => {
  for (let ticks = 0; ticks < 6; ticks++) {
    const lock = new MemoryLock();
    let isDisposed = false;
    let ranLate = false;
    const call = lock.request("n", () => void (ranLate = isDisposed));
    const outcome = Promise.allSettled([call]);
    for (let tick = 0; tick < ticks; tick++) await null;
    isDisposed = true;
    await lock[Symbol.asyncDispose]();
    await outcome;
    assertEquals(ranLate, false, `after ${ticks} ticks`);
  }
});

for (const what of ["lease", "set"] as const) {
  Deno.test(`MemoryLock grants a waiter the lock of a ${what} after maxHoldMs, when nothing else keeps the process alive`, async () => {
    const script = new URL("../../testing/memory/waiter.ts", import.meta.url);
    await using child = startChild(script, { isSet: what === "set" });
    assertEquals(await within("the process prints, or ends", child.line()), "granted");
    assertEquals(await within("the process ends", child.ended), 0);
  });
}

Deno.test("MemoryLock.query() lists 64 waiters unless it is told otherwise", async () => {
  await using lock = new MemoryLock();
  await using _held = await lock.acquire("n");
  const stop = new AbortController();
  const calls = Array.from({ length: 70 }, () => lock.acquire("n", { signal: stop.signal }));
  const ended = Promise.allSettled(calls);
  const { waiters, waiterCount } = await lock.query("n");
  assertEquals([waiters.length, waiterCount], [64, 70]);
  stop.abort();
  await ended;
});
