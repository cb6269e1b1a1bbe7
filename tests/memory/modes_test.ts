/**
 * Shared holders and limits of `MemoryLock`: beside a reference queue, with many readers, and what a step costs.
 * What all strategies do is in `testing/conformance/modes.ts`.
 */
import { assert, assertEquals, assertRejects } from "@std/assert";
import { setImmediate } from "node:timers";
import process from "node:process";
import { type AcquireOptions, type Lease, MemoryLock } from "../../mod.ts";
import { within } from "../../testing/conformance/bounds.ts";
import { randomFrom } from "../../testing/processes/random.ts";

const SHARED = { mode: "shared" } as const;
/** The soak runs the full figure. */
const STEPS = process.env["HOLDFAST_SOAK"] ? 100_000 : 5_000;

/** Lets all promises settle. */
function turnOver(): Promise<void> {
  return new Promise((resolve) => void setImmediate(resolve));
}

/** A call of the reference queue. */
interface Call {
  readonly options: AcquireOptions;
  readonly abort: AbortController;
  lease: Lease | null;
}

const isShared = ({ options: { mode, limit } }: Call) => mode === "shared" || limit !== undefined;

function mayJoin(call: Call, holders: readonly Call[]): boolean {
  if (holders.length === 0) return true;
  const { limit = Infinity } = call.options;
  return isShared(call) && holders.every(isShared) && holders.length < limit;
}

Deno.test("MemoryLock has the holders and the queue of a reference queue after each of many random calls", async () => {
  const random = randomFrom("Calls of a reference queue");
  const pick = <T>(items: readonly T[]): T => items[Math.floor(random() * items.length)]!;
  await using locks = new MemoryLock({ disposeTimeoutMs: 0 });
  let [holders, queue]: [Call[], Call[]] = [[], []];
  const admit = () => {
    while (queue.length > 0 && mayJoin(queue[0]!, holders)) holders.push(queue.shift()!);
  };
  const newCall = (): Call => {
    const limit = Math.floor(random() * 6);
    const isPlain = random() < 0.3;
    const options = isPlain ? {} : limit === 0 ? SHARED : { limit };
    return { options, abort: new AbortController(), lease: null };
  };
  const ask = (call: Call) => {
    const lease = locks.acquire("n", { ...call.options, signal: call.abort.signal });
    lease.then((lease) => call.lease = lease, () => {});
    queue.push(call);
  };
  for (let step = 0; step < STEPS; step++) {
    const kind = random();
    if (kind < 0.45 && queue.length < 10) ask(newCall());
    else if (kind < 0.55) {
      const call = newCall();
      const mayHave = queue.length === 0 && mayJoin(call, holders);
      call.lease = await locks.tryAcquire("n", call.options);
      assertEquals(call.lease !== null, mayHave, `step ${step}: a try`);
      if (mayHave) holders.push(call);
    } else if (kind < 0.85 && holders.length > 0) {
      const call = pick(holders);
      holders = holders.filter((other) => other !== call);
      assertEquals(await call.lease!.release(), true, `step ${step}: a release`);
    } else if (kind < 0.97 && queue.length > 0) {
      const call = pick(queue);
      queue = queue.filter((other) => other !== call);
      call.abort.abort(new Error("enough"));
    } else if (kind > 0.99) {
      const thief = newCall();
      const victims = holders;
      await locks.request("n", { steal: true }, (lease) => {
        assert(victims.every(({ lease }) => lease!.signal.aborted), `step ${step}: a steal`);
        thief.lease = lease;
      });
      holders = [];
    }
    admit();
    const { holders: seen, holderCount, waiterCount } = await locks.query("n");
    assertEquals([holderCount, waiterCount], [holders.length, queue.length], `step ${step}`);
    assertEquals(
      seen.map(({ mode }) => mode === "shared"),
      holders.map(isShared),
      `step ${step}`,
    );
    await turnOver();
    assert(holders.every(({ lease }) => lease?.isHeld), `step ${step}: a holder has its lease`);
    assert(queue.every(({ lease }) => lease === null), `step ${step}: a waiter has none`);
  }
});

Deno.test("MemoryLock lets 10,000 readers in behind a writer, in steps that leave others their turns", async () => {
  const readers = 10_000;
  await using locks = new MemoryLock();
  const writer = await locks.acquire("n");
  let granted = 0;
  const calls = Array.from({ length: readers }, async () => {
    const lease = await locks.acquire("n", SHARED);
    granted++;
    return lease;
  });
  const last = locks.acquire("n");
  let most = 0;
  const counted = Promise.withResolvers<void>();
  const count = (before: number) => {
    most = Math.max(most, granted - before);
    if (granted === readers) counted.resolve();
    else setImmediate(count, granted);
  };
  await writer.release();
  count(0);
  await within("all are let in", counted.promise);
  assert(most <= 200, `${most} in one step`);
  assertEquals((await locks.query("n")).holderCount, readers);
  await Promise.all((await Promise.all(calls)).map((lease) => lease.release()));
  await (await last).release();
});

Deno.test("MemoryLock.acquire() waits among constant readers for no reader that comes later", async () => {
  await using locks = new MemoryLock();
  let [isDone, isWaiting] = [false, false];
  let passed = 0;
  const loops = Array.from({ length: 50 }, async () => {
    while (!isDone) {
      const isLater = isWaiting;
      const lease = await locks.acquire("n", SHARED);
      if (isLater && isWaiting) passed++;
      await turnOver();
      await lease.release();
    }
  });
  for (let round = 0; round < 20; round++) {
    await turnOver();
    isWaiting = true;
    const writer = await within("the writer is served", locks.acquire("n"));
    isWaiting = false;
    await turnOver();
    await writer.release();
  }
  assertEquals(passed, 0);
  isDone = true;
  await Promise.all(loops);
});

Deno.test("MemoryLock: disposal and a steal end a batch of readers that is being let in", async () => {
  for (const end of ["disposal", "steal"] as const) {
    const locks = new MemoryLock({ disposeTimeoutMs: 0 });
    const writer = await locks.acquire("n");
    const calls = Array.from({ length: 200 }, () => locks.acquire("n", SHARED));
    const settled = Promise.allSettled(calls);
    await writer.release(); // the first ones are let in
    if (end === "steal") {
      await locks.request("n", { steal: true }, async () => {
        const { holderCount, waiterCount } = await locks.query("n");
        assertEquals([holderCount, waiterCount > 0], [1, true]);
      });
      const leases = (await settled).map((call) => (call as PromiseFulfilledResult<Lease>).value);
      const held = leases.filter((lease) => lease.isHeld).length;
      assertEquals((await locks.query("n")).holderCount, held);
      assert(held > 0 && held < 200);
    }
    await locks[Symbol.asyncDispose]();
    for (const call of await settled) {
      if (call.status === "fulfilled") assertEquals(call.value.isHeld, false);
      else assertEquals(call.reason.name, "AbortError");
    }
    await assertRejects(() => locks.query("n"), DOMException);
  }
});

Deno.test("request() in shared mode warns about a shared call inside its own callback", async () => {
  const warnings: string[] = [];
  await using locks = new MemoryLock({ onWarning: (message) => warnings.push(message) });
  await locks.request("n", SHARED, async () => {
    assertEquals(await locks.request("n", SHARED, ({ mode }) => mode), "shared");
  });
  assertEquals(warnings.length, 1);
  assert(warnings[0]!.includes("if an exclusive call waits in between"), warnings[0]);
});
