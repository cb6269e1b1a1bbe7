/**
 * Waits that `waitMs` bounds, when ZooKeeper does not answer at their end; and queries that list few
 * waiters.
 */
import { assertEquals, assertLess } from "@std/assert";
import { assertUnavailable } from "../../testing/conformance/bounded_outage.ts";
import { within } from "../../testing/conformance/bounds.ts";
import { startProxy } from "../../testing/servers/proxy.ts";
import { waitUntil } from "../../testing/servers/wait.ts";
import { startZooKeeper, type ZooKeeperServer } from "../../testing/servers/zookeeper.ts";
import { CONDITION_BOUND_MS, LONG_SESSION_MS, scaled } from "../../testing/time.ts";
import { newRoot } from "../../testing/zookeeper/waiter.ts";
import { ZooKeeperLock } from "../../zookeeper/mod.ts";

let server: ZooKeeperServer;

Deno.test.beforeAll(async () => {
  server = await startZooKeeper();
});
Deno.test.afterAll(async () => {
  await server[Symbol.asyncDispose]();
});

Deno.test("ZooKeeperLock.acquire() and tryAcquire() with waitMs report an outage during the wait, and one that lasts for all of it", async () => {
  await using proxy = startProxy(server);
  const rootPath = newRoot();
  const options = {
    rootPath,
    sessionTimeoutMs: LONG_SESSION_MS,
    requestTimeoutMs: scaled(2_000),
    unavailableAfterMs: CONDITION_BOUND_MS,
    disposeTimeoutMs: 200,
  };
  await using other = new ZooKeeperLock(server.connectString, { rootPath });
  await using held = await other.acquire("n");
  await using lock = new ZooKeeperLock(`127.0.0.1:${proxy.port}`, options);
  await lock.query("n"); // connects
  await assertUnavailable(lock, () => proxy.blackHole("both"));
  await assertUnavailable(lock, () => {});
  proxy.heal();
  await proxy.refuse(true);
  await assertUnavailable(lock, () => {});
  await proxy.refuse(false);
  await within("it reconnects", lock.query("n"));
  assertEquals(await held.release(), true);
});

Deno.test("ZooKeeperLock.query() lists no more waiters than it is asked for, and counts all", async () => {
  const rootPath = newRoot();
  await using lock = new ZooKeeperLock(server.connectString, { rootPath, label: "l" });
  const held = await lock.acquire("n");
  const abort = new AbortController();
  const { signal } = abort;
  const waits = Array.from({ length: 5 }, () => lock.acquire("n", { signal }).catch(() => {}));
  await waitUntil("all wait", async () => (await lock.query("n")).waiterCount === 5);
  for (const maxWaiters of [0, 2, 5, 64]) {
    const { holders, waiters, waiterCount } = await lock.query("n", { maxWaiters });
    const read = [holders[0]?.label, waiters.length, waiterCount];
    assertEquals(read, ["l", Math.min(5, maxWaiters), 5]);
  }
  abort.abort();
  await Promise.all(waits);
  await held.release();
});

/** Returns the largest number of listeners that one signal has at a time, until the work is done. */
async function mostListeners(work: () => Promise<unknown>): Promise<number> {
  const { addEventListener, removeEventListener } = AbortSignal.prototype;
  const counts = new Map<AbortSignal, number>();
  let most = 0;
  const add = (signal: AbortSignal, difference: number) => {
    const count = (counts.get(signal) ?? 0) + difference;
    counts.set(signal, count);
    most = Math.max(most, count);
  };
  AbortSignal.prototype.addEventListener = function (...args: [never, never]) {
    add(this, 1);
    addEventListener.apply(this, args);
  };
  AbortSignal.prototype.removeEventListener = function (...args: [never, never]) {
    add(this, -1);
    removeEventListener.apply(this, args);
  };
  try {
    await work();
  } finally {
    Object.assign(AbortSignal.prototype, { addEventListener, removeEventListener });
  }
  return most;
}

Deno.test("ZooKeeperLock shares no signal with many listeners among queries and waits that end together", async () => {
  await using lock = new ZooKeeperLock(server.connectString, { rootPath: newRoot() });
  const queries = await mostListeners(() =>
    Promise.all(Array.from({ length: 100 }, (_, i) => lock.query(`n${i}`)))
  );
  assertLess(queries, 10);
  await using held = await lock.acquire("n");
  const { signal } = new AbortController();
  const waitMs = scaled(500); // enough to send all of them
  const waits = await mostListeners(() =>
    Promise.all(
      Array.from({ length: 100 }, () => lock.tryAcquire("n", { waitMs, signal })),
    )
  );
  assertLess(waits, 10);
  assertEquals(await held.release(), true);
});
