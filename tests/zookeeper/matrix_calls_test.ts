/**
 * Rows of the failure matrix in `docs/zookeeper-protocol.md`: faults of callers, load and disposal. After
 * each of them the server keeps nothing of ours.
 *
 * @module
 */
import { assert, assertEquals, assertRejects } from "@std/assert";
import { collectWarnings } from "../../testing/runtime/reports.ts";
import { type FaultProxy, startProxy } from "../../testing/servers/proxy.ts";
import { waitUntil } from "../../testing/servers/wait.ts";
import { within } from "../../testing/conformance/bounds.ts";
import { startZooKeeper, type ZooKeeperServer } from "../../testing/servers/zookeeper.ts";
import { type Lease, ZooKeeperLock, type ZooKeeperLockOptions } from "../../zookeeper/mod.ts";
import {
  CONDITION_BOUND_MS,
  KEPT_SESSION_MS,
  LONG_SESSION_MS,
  scaled,
} from "../../testing/time.ts";
import { countedServers } from "../../testing/zookeeper/counted_servers.ts";
import { nothingLeft } from "../../testing/zookeeper/leaks.ts";
import { newRoot, waiter } from "../../testing/zookeeper/waiter.ts";
import { sessionKeys } from "../../testing/zookeeper/wire.ts";

/** The longest session outlives this, on any machine. */
const SOONER_THAN_SESSION_MS = scaled(10_000);

let server: ZooKeeperServer;

Deno.test.beforeAll(async () => {
  server = await startZooKeeper();
});
Deno.test.afterEach(() => nothingLeft(server));
Deno.test.afterAll(async () => {
  await server[Symbol.asyncDispose]();
});

function through(proxy: FaultProxy, options: ZooKeeperLockOptions = {}): ZooKeeperLock {
  return new ZooKeeperLock(`127.0.0.1:${proxy.port}`, { rootPath: newRoot(), ...options });
}

Deno.test("ZooKeeperLock.acquire() rejects, and harms no other call, when onWait throws", async () => {
  const rootPath = newRoot();
  await using locks = new ZooKeeperLock(server.connectString, { rootPath });
  const lease = await locks.acquire("n");
  const other = await waiter(locks, "n");
  const onWait = () => {
    throw new Error("the user's own");
  };
  const error = await assertRejects(() => locks.acquire("n", { onWait }));
  assertEquals((error as Error).message, "the user's own");
  await waitUntil("the znode of the failed call is deleted", async () => {
    return (await locks.query("n")).waiters.length === 1;
  });
  await lease.release();
  await (await other.lease).release();
});

Deno.test("ZooKeeperLock.acquire() rejects with an AbortError when its instance is disposed of while connecting", async () => {
  for (let turns = 0; turns < 4; turns++) {
    const locks = new ZooKeeperLock(server.connectString, { rootPath: newRoot() });
    const call = locks.acquire("n");
    call.catch(() => {});
    for (let i = 0; i < turns; i++) await Promise.resolve();
    await locks[Symbol.asyncDispose]();
    assertEquals((await assertRejects(() => call, DOMException)).name, "AbortError");
  }
});

Deno.test("ZooKeeperLock closes its session when it is disposed of in a short outage and the server is back", async () => {
  await using proxy = startProxy(server);
  const servers = countedServers(proxy);
  const locks = new ZooKeeperLock(servers.list, {
    rootPath: newRoot(),
    sessionTimeoutMs: LONG_SESSION_MS,
    disposeTimeoutMs: SOONER_THAN_SESSION_MS,
  });
  await (await locks.acquire("n")).release();
  await proxy.refuse(true);
  proxy.cutAll();
  const cutOff = () => proxy.connections === 0;
  await waitUntil("the client is cut off", cutOff, CONDITION_BOUND_MS);
  const disposed = locks[Symbol.asyncDispose]();
  await servers.triedAgain();
  await proxy.refuse(false);
  await disposed;
  // Sooner than by the session timeout.
  await nothingLeft(server, SOONER_THAN_SESSION_MS);
});

Deno.test("ZooKeeperLock is disposed of in time when the server is suspended", async () => {
  await using server = await startZooKeeper();
  const locks = new ZooKeeperLock(server.connectString, {
    sessionTimeoutMs: LONG_SESSION_MS,
    disposeTimeoutMs: 800,
  });
  await locks.acquire("n");
  const { lease } = await waiter(locks, "n");
  await server.pause();
  await within("disposal ends", locks[Symbol.asyncDispose](), SOONER_THAN_SESSION_MS);
  await assertRejects(() => lease, DOMException);
  await server.resume();
  // A server that finds the connection closed before it has read the last request keeps the session.
  await nothingLeft(server, LONG_SESSION_MS + CONDITION_BOUND_MS);
});

Deno.test("ZooKeeperLock.acquire() succeeds or rejects in time when the socket cannot take all requests", async () => {
  await using server = await startZooKeeper();
  const unavailableAfterMs = scaled(3_000);
  const options = { sessionTimeoutMs: KEPT_SESSION_MS, unavailableAfterMs };
  const locks = new ZooKeeperLock(server.connectString, options);
  const names = Array.from({ length: 400 }, (_, i) => `${i}-${"x".repeat(900)}`);
  const all = () => names.map((name) => locks.acquire(name));
  const release = (leases: Lease[]) => Promise.all(leases.map((lease) => lease.release()));
  await release(await Promise.all(all()));
  await server.pause();
  // Not all requests could be sent, and the session ends meanwhile: neither may prolong the wait.
  const calls = within("the calls reject", Promise.allSettled(all()), 4 * unavailableAfterMs);
  for (const { status } of await calls) assertEquals(status, "rejected");
  await server.resume();
  await (await locks.acquire("n")).release();
  await locks[Symbol.asyncDispose]();
  await nothingLeft(server);
});

Deno.test("ZooKeeperLock.acquire() causes no warning about a leak when many waiters watch one znode", async () => {
  const rootPath = newRoot();
  using warnings = collectWarnings();
  await using others = new ZooKeeperLock(server.connectString, { rootPath });
  await using locks = new ZooKeeperLock(server.connectString, { rootPath });
  const lease = await others.acquire("n");
  const waits = await Promise.all(Array.from({ length: 40 }, () => waiter(locks, "n")));
  // Each of the others then finds the holder directly before it.
  for (const { abort, lease } of waits) {
    abort();
    await assertRejects(() => lease);
  }
  await lease.release();
  assertEquals(warnings.messages, []);
});

Deno.test("ZooKeeperLock keeps session and places when it reconnects with more watches than fit in a request", async () => {
  const rootPath = newRoot();
  await using server = await startZooKeeper();
  await using proxy = startProxy(server);
  // Long, so that a busy machine does not look like an outage.
  const patient = {
    rootPath,
    sessionTimeoutMs: 2 * KEPT_SESSION_MS,
    unavailableAfterMs: CONDITION_BOUND_MS,
  };
  await using others = new ZooKeeperLock(server.connectString, patient);
  await using locks = through(proxy, patient);
  // Two watches for each waiter, in all more than the server accepts in one request: 1 MiB.
  const names = Array.from({ length: 600 }, (_, i) => `${i}-${"x".repeat(900)}`);
  const held = await Promise.all(names.map((name) => others.acquire(name)));
  const waits = await Promise.all(names.map((name) => waiter(locks, name)));
  // The holders watch their own znodes, too, a while after their grants.
  const allWatch = async () => {
    return (await server.fourLetterWord("wchs")).includes("Total watches:1800");
  };
  await waitUntil("all watches are set", allWatch, CONDITION_BOUND_MS);
  const ids: bigint[] = [];
  proxy.onReply = sessionKeys(({ id }) => void ids.push(id));
  for (let i = 1; i <= 2; i++) {
    const soFar = ids.length;
    proxy.cutAll();
    await waitUntil(
      "all watches are set again",
      async () => ids.length > soFar && await allWatch(),
      CONDITION_BOUND_MS,
    );
  }
  await Promise.all(held.map((lease) => lease.release()));
  await Promise.all(waits.map(async ({ lease }) => assert(await (await lease).release())));
  assertEquals(new Set(ids).size, 1);
  for (const lock of [locks, others]) await lock[Symbol.asyncDispose]();
  await nothingLeft(server);
});
