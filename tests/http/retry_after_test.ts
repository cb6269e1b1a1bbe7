/** `Retry-After`: jittered, so that refused clients do not all return at once, and set where holds are short. */
import { assert, assertEquals, assertRejects, assertThrows } from "@std/assert";
import { FileLock } from "../../file/mod.ts";
import { fetchLock, type FetchLockOptions } from "../../http/mod.ts";
import { lambdaLock, RetryableLockError } from "../../http/lambda.ts";
import { HoldTimes } from "../../http/internal/hold_times.ts";
import { type DistributedLock, type Lease, MemoryLock } from "../../mod.ts";
import { temporary } from "../../testing/file/lock_directories.ts";
import { waitUntil } from "../../testing/servers/wait.ts";
import { CONDITION_BOUND_MS } from "../../testing/time.ts";

const REQUESTS = 60;
/** How long a request holds the lock: longer than the least time that is told to a client. */
const HOLD_MS = 150;

interface Refusal {
  readonly seconds: number;
  readonly ms: number;
}

/** Sends requests for a lock that is held for ten minutes more. */
async function refusals(
  options: Partial<FetchLockOptions>,
  wrap = (lock: DistributedLock) => lock,
): Promise<Refusal[]> {
  await using locks = new MemoryLock();
  await using _lease = await locks.acquire("key", { maxHoldMs: 600_000 });
  const handler = fetchLock(wrap(locks), { ...options, key: "key" })(() => new Response());
  const refused: Refusal[] = [];
  for (let i = 0; i < REQUESTS; i++) {
    const response = await handler(new Request("http://localhost/"));
    assertEquals(response.status, 409);
    const seconds = Number(response.headers.get("retry-after"));
    refused.push({ seconds, ms: (await response.json()).retryAfterMs });
  }
  return refused;
}

/** Asserts that values lie between two bounds and differ. */
function assertSpread(values: readonly number[], low: number, high: number): void {
  for (const value of values) {
    assert(value >= low && value <= high && Number.isInteger(value), `${value}`);
  }
  assert(new Set(values).size > 1, `all are ${values[0]}`);
}

Deno.test("fetchLock() spreads Retry-After over half of the holder's remaining time", async () => {
  const refused = await refusals({});
  assertSpread(refused.map(({ ms }) => ms), 500_000, 900_000);
  assertSpread(refused.map(({ seconds }) => seconds), 500, 900);
});

/** A lock that is never asked for its holder. */
function unasked(inner: DistributedLock): DistributedLock {
  return {
    capabilities: inner.capabilities,
    acquire: (...args) => inner.acquire(...args),
    tryAcquire: (...args) => inner.tryAcquire(...args),
    request: (...args: unknown[]) => (inner.request as (...args: unknown[]) => never)(...args),
    query: () => Promise.reject(new Error("One more command")),
    [Symbol.asyncDispose]: () => inner[Symbol.asyncDispose](),
  };
}

Deno.test("fetchLock() takes Retry-After from retryAfterMs, and asks no lock for the holder then", async () => {
  const soon = await refusals({ retryAfterMs: 200 }, unasked);
  assertSpread(soon.map(({ ms }) => ms), 200, 300);
  assertEquals(new Set(soon.map(({ seconds }) => seconds)), new Set([1]));
  const later = await refusals({ retryAfterMs: 1_000 }, unasked);
  assertSpread(later.map(({ ms }) => ms), 1_000, 1_500);
  assertSpread(later.map(({ seconds }) => seconds), 1, 2);
});

Deno.test("fetchLock() does not ask for the holder of a file's lock, whose end nobody knows", async () => {
  let queries = 0;
  class CountingLock extends FileLock {
    override query(...args: Parameters<FileLock["query"]>): ReturnType<FileLock["query"]> {
      queries++;
      return super.query(...args);
    }
  }
  await using directory = await temporary();
  await using locks = new CountingLock({ dir: directory.dir });
  await using _lease = await locks.acquire("key");
  const response = await fetchLock(locks, { key: "key" })(() => new Response())(
    new Request("http://localhost/"),
  );
  assertEquals([response.status, queries], [409, 0]);
});

/** Holds the lock for a while, and returns for how long at least. */
async function holdOnce(): Promise<number> {
  const startMs = performance.now();
  await waitUntil("the time is over", () => performance.now() - startMs >= HOLD_MS);
  return performance.now() - startMs;
}

/** Calls a handler twice, whose lock is held for a minute the second time. Checks when it may be tried again. */
async function assertLearns(
  locks: MemoryLock,
  hold: () => Promise<number>,
  refusedMs: () => Promise<number>,
): Promise<void> {
  const startMs = performance.now();
  const leastMs = await hold();
  const mostMs = performance.now() - startMs;
  await using _lease = await locks.acquire("key", { maxHoldMs: 60_000 });
  const retryAfterMs = await refusedMs();
  const isRight = retryAfterMs >= leastMs && retryAfterMs <= Math.ceil(1.5 * mostMs);
  assert(isRight, `${retryAfterMs} ms, held for ${leastMs} to ${mostMs} ms`);
}

Deno.test("fetchLock() takes Retry-After from how long requests have held the lock, once it knows", async () => {
  await using locks = new MemoryLock();
  const handler = fetchLock(unasked(locks), "key")(async () => Response.json(await holdOnce()));
  const send = async () => await handler(new Request("http://localhost/"));
  await assertLearns(locks, async () => await (await send()).json(), async () => {
    const refused = await send();
    assertEquals(refused.status, 409);
    return (await refused.json()).retryAfterMs;
  });
});

Deno.test("lambdaLock() takes retryAfterMs from how long invocations have held the lock, once it knows", async () => {
  await using locks = new MemoryLock();
  const handler = lambdaLock(unasked(locks), "key")(holdOnce);
  const context = { getRemainingTimeInMillis: () => CONDITION_BOUND_MS };
  await assertLearns(locks, async () => await handler({}, context) as number, async () => {
    const error = await assertRejects(() => handler({}, context), RetryableLockError);
    return error.retryAfterMs!;
  });
});

Deno.test("fetchLock() does not count a hold that ended with a loss", async () => {
  await using locks = new MemoryLock();
  const handler = fetchLock(locks, "key")(async () => {
    await locks.request("key", { steal: true }, () => {});
    return new Response();
  });
  assertEquals((await handler(new Request("http://localhost/"))).status, 503);
  await using _lease = await locks.acquire("key", { maxHoldMs: 60_000 });
  const { retryAfterMs } = await (await handler(new Request("http://localhost/"))).json();
  assert(retryAfterMs > 30_000, `${retryAfterMs} ms`);
});

Deno.test("HoldTimes: of the last ten holds the second longest, of fewer the longest, 100 ms at least", () => {
  const times = new HoldTimes();
  const hold = (ms: number) => {
    const lease = {} as Lease;
    times.granted(lease, 1_000);
    times.released(lease, 1_000 + ms);
    return times.usualMs;
  };
  assertEquals(times.usualMs, undefined);
  times.released({} as Lease, 5_000); // a lease of somebody else
  assertEquals(times.usualMs, undefined);
  assertEquals([4, 4_000, 20, 60_000].map(hold), [100, 4_000, 4_000, 60_000]);
  assertEquals([1, 2, 3, 4, 5, 6].map(hold), [60_000, 60_000, 60_000, 60_000, 60_000, 4_000]);
  assertEquals([5_000, 5_000].map(hold), [5_000, 5_000]); // 60,000 still counts as the longest
  for (let i = 0; i < 10; i++) hold(4_000);
  assertEquals(hold(3_999), 4_000);
});

Deno.test("fetchLock() throws on a bad retryAfterMs", async () => {
  await using locks = new MemoryLock();
  for (const retryAfterMs of [-1, 0, 1.5, Infinity]) {
    assertThrows(
      () => fetchLock(locks, { key: "key", retryAfterMs }),
      RangeError,
      "'retryAfterMs'",
    );
  }
});
