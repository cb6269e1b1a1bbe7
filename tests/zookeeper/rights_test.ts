/**
 * Clients that lack a right to the root path or to a lock's znode, from the start or later.
 *
 * @module
 */
import { assert, assertEquals, assertInstanceOf, assertRejects } from "@std/assert";
import { LockSetupError } from "../../core/contract/errors.ts";
import { ZooKeeperLock } from "../../zookeeper/mod.ts";
import { ZooKeeperError } from "../../zookeeper/connection/failures.ts";
import { within } from "../../testing/conformance/bounds.ts";
import { type FaultProxy, startProxy } from "../../testing/servers/proxy.ts";
import { type Shown, untilShown, watchStalls } from "../../testing/processes/stalls.ts";
import { waitUntil } from "../../testing/servers/wait.ts";
import { startZooKeeper, type ZooKeeperServer } from "../../testing/servers/zookeeper.ts";
import { CONDITION_BOUND_MS, KEPT_SESSION_MS, scaled } from "../../testing/time.ts";
import { nothingLeft } from "../../testing/zookeeper/leaks.ts";
import { observing, RIGHTS } from "../../testing/zookeeper/observer.ts";
import { newRoot, waiter } from "../../testing/zookeeper/waiter.ts";
import { operations } from "../../testing/zookeeper/wire.ts";

const { READ, WRITE, CREATE, DELETE } = RIGHTS;
const ALL = READ | WRITE | CREATE | DELETE;
/** The session of a test that waits for several heartbeats, six of which are sent in this time. */
const BEATING_SESSION_MS = scaled(3_000);
/** So many pings and heartbeats take longer than the session timeout. */
const SIGNS_OF_LIFE = 8;

let server: ZooKeeperServer;

Deno.test.beforeAll(async () => {
  server = await startZooKeeper();
});
Deno.test.afterEach(() => nothingLeft(server));
Deno.test.afterAll(async () => {
  await server[Symbol.asyncDispose]();
});

function open(
  rootPath: string,
  { port }: { readonly port: number } = server,
  sessionTimeoutMs = KEPT_SESSION_MS,
): ZooKeeperLock {
  return new ZooKeeperLock(`127.0.0.1:${port}`, { rootPath, sessionTimeoutMs });
}

/** Lists the operations of the requests of the clients behind a proxy. */
function requestsThrough(proxy: FaultProxy): readonly string[] {
  const seen: string[] = [];
  proxy.onRequest = operations((operation) => void seen.push(operation));
  return seen;
}

/** Makes the znode of a lock, and permits everybody these rights to it and to the root path. */
async function makeLock(
  name: string,
  rights: { readonly root?: number; readonly lock?: number },
): Promise<string> {
  const rootPath = newRoot();
  await observing(server.connectString, async (observer) => {
    await observer.make(`${rootPath}/${name}`);
    await observer.permit(`${rootPath}/${name}`, rights.lock ?? ALL);
    await observer.permit(rootPath, rights.root ?? ALL);
  });
  return rootPath;
}

function permit(path: string, rights: number): Promise<void> {
  return observing(server.connectString, (observer) => observer.permit(path, rights));
}

function queue(rootPath: string, name: string): Promise<string[]> {
  return observing(server.connectString, (observer) => observer.children(`${rootPath}/${name}`));
}

/** Checks that a call is refused for lack of a right; returns the message. */
async function refused(call: () => Promise<unknown>): Promise<string> {
  const error = await within("it rejects", assertRejects(call, LockSetupError));
  assertInstanceOf(error.cause, ZooKeeperError);
  assertEquals(error.cause.code, "NO_AUTH");
  assertEquals(error.lockName, "n");
  return error.message;
}

Deno.test("ZooKeeperLock.acquire() rejects with a LockSetupError when the session may not create its znode below the root path", async () => {
  const rootPath = await makeLock("n", { root: READ | WRITE | DELETE });
  await using locks = open(rootPath);
  await refused(() => locks.acquire("n"));
  await refused(() => locks.tryAcquire("n"));
  await refused(() => locks.request("n", () => {}));
  await waitUntil("nothing is left in the queue", async () => {
    return (await queue(rootPath, "n")).length === 0;
  });
  await permit(rootPath, ALL);
  await using lease = await locks.acquire("n");
  lease.throwIfLost();
});

Deno.test("ZooKeeperLock.acquire() rejects at once, not after its wait, when the session may not create its znode", async () => {
  const rootPath = await makeLock("n", {});
  await using holders = open(rootPath);
  await using lease = await holders.acquire("n");
  await permit(rootPath, READ);
  await using locks = open(rootPath);
  await refused(() => locks.acquire("n"));
  lease.throwIfLost();
  await permit(rootPath, ALL);
});

Deno.test("ZooKeeperLock.release() rejects with a LockSetupError when the user may not delete, and the lock is free after disposal", async () => {
  const rootPath = await makeLock("n", { lock: READ | WRITE | CREATE });
  await using others = open(rootPath);
  await using locks = open(rootPath);
  const [lease, other] = [await locks.acquire("n"), await locks.acquire("m")];
  const next = await waiter(others, "n");
  const message = await refused(() => lease.release());
  assert(/release lock "n".*NO_AUTH.*disposed/s.test(message), message);
  await refused(() => lease.release());
  await lease[Symbol.asyncDispose]();
  other.throwIfLost();
  assertEquals(await other.release(), true);
  assertEquals((await queue(rootPath, "n")).length, 2);
  await locks[Symbol.asyncDispose]();
  const granted = await within("the next waiter gets the lock", next.lease);
  await permit(`${rootPath}/n`, ALL);
  assertEquals(await granted.release(), true);
});

Deno.test("ZooKeeperLock.request() rejects with a LockSetupError when the release is refused, but the callback's own error wins", async () => {
  const rootPath = await makeLock("n", { lock: READ | WRITE | CREATE });
  await using locks = open(rootPath);
  await refused(() => locks.request("n", () => "done"));
  await locks[Symbol.asyncDispose]();
  await using again = open(rootPath);
  const error = new Error("of the callback");
  const rejected = await assertRejects(() => again.request("n", () => Promise.reject(error)));
  assertEquals(rejected, error);
});

Deno.test("ZooKeeperLock releases its other leases at disposal when one release is refused", async () => {
  const rootPath = await makeLock("n", { lock: READ | WRITE | CREATE });
  await using others = open(rootPath);
  await using locks = open(rootPath);
  await locks.acquire("n");
  await locks.acquire("m");
  const next = await waiter(others, "m");
  await locks[Symbol.asyncDispose]();
  const lease = await within("the other lock is free", next.lease);
  assertEquals(await lease.release(), true);
  await permit(`${rootPath}/n`, ALL);
});

Deno.test("ZooKeeperLock.tryAcquire() rejects with a LockSetupError, and does not return null, when the user may not delete its znode", async () => {
  const rootPath = await makeLock("n", {});
  await using holders = open(rootPath);
  await using lease = await holders.acquire("n");
  await permit(`${rootPath}/n`, READ | WRITE | CREATE);
  {
    await using locks = open(rootPath);
    await refused(() => locks.tryAcquire("n"));
  }
  await permit(`${rootPath}/n`, ALL);
  lease.throwIfLost();
});

Deno.test("ZooKeeperLock does not repeat a delete in the background that the server refuses", async () => {
  const rootPath = await makeLock("n", {});
  await using holders = open(rootPath);
  const lease = await holders.acquire("n");
  await using proxy = startProxy(server);
  const requests = requestsThrough(proxy);
  await using locks = open(rootPath, proxy, BEATING_SESSION_MS);
  const waiting = await waiter(locks, "n");
  await permit(`${rootPath}/n`, READ | WRITE | CREATE);
  waiting.abort();
  await waiting.lease.catch(() => {});
  const sent = (operation: string) => requests.filter((each) => each === operation).length;
  const pings = sent("ping");
  const hasPinged = () => sent("ping") >= pings + 2;
  await waitUntil("two pings were sent", hasPinged, CONDITION_BOUND_MS);
  // A repeated delete would make about 20 a second meanwhile. On a new connection it is sent once more.
  assert(sent("delete") <= sent("connect"), requests.join());
  await locks[Symbol.asyncDispose]();
  await permit(`${rootPath}/n`, ALL);
  assertEquals(await lease.release(), true);
});

async function keepLeases(): Promise<Shown> {
  const rootPath = await makeLock("n", {});
  await using proxy = startProxy(server);
  const requests = requestsThrough(proxy);
  await using locks = open(rootPath, proxy, BEATING_SESSION_MS);
  await using others = open(rootPath);
  using stalls = watchStalls();
  const lease = await locks.acquire("n");
  const second = await locks.acquire("m");
  await lease.renew();
  const isGranted = { value: false };
  const next = await waiter(others, "n");
  next.lease.then(() => isGranted.value = true, () => {});
  const mine = await observing(server.connectString, async (observer) => {
    const names = await observer.children(rootPath);
    for (const name of names.filter((name) => name.startsWith("%session-"))) {
      await observer.permit(`${rootPath}/${name}`, READ);
    }
    await observer.permit(rootPath, READ);
    return names;
  });
  assert(mine.some((name) => name.startsWith("%session-")));
  if (!await areHeld()) return "stalled";
  // Nor when the znode is gone and may not be created again.
  await permit(rootPath, READ | DELETE);
  await observing(server.connectString, async (observer) => {
    for (const name of mine.filter((name) => name.startsWith("%session-"))) {
      await observer.remove(`${rootPath}/${name}`);
    }
  });
  await permit(rootPath, READ);
  if (!await areHeld()) return "stalled";
  assertEquals(await second.release(), true);
  assertEquals(await lease.release(), true);
  await permit(rootPath, ALL);
  await (await within("the next waiter gets the lock", next.lease)).release();
  return "shown";

  async function areHeld(): Promise<boolean> {
    const before = requests.length;
    let hasStalled = false;
    await waitUntil("the session would have ended", () => {
      hasStalled = !(lease.isHeld && second.isHeld) &&
        stalls.longestMs > BEATING_SESSION_MS / 6;
      if (hasStalled) return true;
      lease.throwIfLost();
      second.throwIfLost();
      assert(!isGranted.value, "there should be one lease at a time");
      return requests.length >= before + SIGNS_OF_LIFE;
    }, CONDITION_BOUND_MS);
    return !hasStalled;
  }
}

Deno.test("ZooKeeperLock keeps its leases, as the server does, when its heartbeats are refused later", () =>
  untilShown(keepLeases));
