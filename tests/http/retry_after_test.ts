/** `Retry-After`: jittered, so that refused clients do not all return at once, and set where holds are short. */
import { assert, assertEquals, assertThrows } from "@std/assert";
import { FileLock } from "../../file/mod.ts";
import { fetchLock, type FetchLockOptions } from "../../http/mod.ts";
import { type DistributedLock, MemoryLock } from "../../mod.ts";
import { temporary } from "../../testing/file/lock_directories.ts";

const REQUESTS = 60;

interface Refusal {
  readonly seconds: number;
  readonly ms: number;
}

/** Sends requests for a lock that is held for 10 s more. */
async function refusals(
  options: Partial<FetchLockOptions>,
  wrap = (lock: DistributedLock) => lock,
): Promise<Refusal[]> {
  await using locks = new MemoryLock();
  await using _lease = await locks.acquire("key", { maxHoldMs: 10_000 });
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
  assertSpread(refused.map(({ ms }) => ms), 9_000, 15_000);
  assertSpread(refused.map(({ seconds }) => seconds), 9, 15);
});

Deno.test("fetchLock() takes Retry-After from retryAfterMs, and asks no lock for the holder then", async () => {
  const unasked = (inner: DistributedLock): DistributedLock => ({
    capabilities: inner.capabilities,
    acquire: (...args) => inner.acquire(...args),
    tryAcquire: (...args) => inner.tryAcquire(...args),
    request: (...args: unknown[]) => (inner.request as (...args: unknown[]) => never)(...args),
    query: () => Promise.reject(new Error("One more command")),
    [Symbol.asyncDispose]: () => inner[Symbol.asyncDispose](),
  });
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
