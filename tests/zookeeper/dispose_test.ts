import { assert, assertEquals, assertRejects } from "@std/assert";
import { type FaultProxy, startProxy } from "../../testing/servers/proxy.ts";
import { type Shown, untilShown, watchStalls } from "../../testing/processes/stalls.ts";
import { pause, waitUntil } from "../../testing/servers/wait.ts";
import { within } from "../../testing/conformance/bounds.ts";
import {
  CONDITION_BOUND_MS,
  ENDING_SESSION_MS,
  KEPT_SESSION_MS,
  LONG_BOUND_MS,
  LONG_SESSION_MS,
  scaled,
} from "../../testing/time.ts";
import { startZooKeeper, type ZooKeeperServer } from "../../testing/servers/zookeeper.ts";
import { LockUnavailableError } from "../../mod.ts";
import { type Lease, ZooKeeperLock } from "../../zookeeper/mod.ts";
import { countedServers } from "../../testing/zookeeper/counted_servers.ts";
import { clientsOf, NOTHING, nothingLeft } from "../../testing/zookeeper/leaks.ts";
import { newRoot, waiter } from "../../testing/zookeeper/waiter.ts";
import { operations } from "../../testing/zookeeper/wire.ts";

/** Short, because the server keeps the session of a client that cannot close it for so long. */
const SESSION_TIMEOUT_MS = scaled(4_000);
/** After how many requests the instances are disposed of: from none to nearly all of the calls. */
const MOST_REQUESTS = 20;
/** At how many moments between these. */
const MOMENTS = Deno.env.get("HOLDFAST_SOAK") ? 20 : 10;

let server: ZooKeeperServer;

Deno.test.beforeAll(async () => {
  server = await startZooKeeper();
});
Deno.test.afterEach(() => nothingLeft(server));
Deno.test.afterAll(async () => {
  await server[Symbol.asyncDispose]();
});

function through(
  proxy: FaultProxy,
  disposeTimeoutMs: number,
  sessionTimeoutMs = SESSION_TIMEOUT_MS,
): ZooKeeperLock {
  return new ZooKeeperLock(`127.0.0.1:${proxy.port}`, {
    rootPath: newRoot(),
    disposeTimeoutMs,
    sessionTimeoutMs,
  });
}

Deno.test("ZooKeeperLock leaves no session, znode, connection or watch after disposal", async () => {
  const locks = new ZooKeeperLock(server.connectString, {
    rootPath: newRoot(),
    sessionTimeoutMs: KEPT_SESSION_MS,
  });
  const leases = await Promise.all(["a", "b", "c"].map((name) => locks.acquire(name)));
  const waits = await Promise.all(["a", "a", "b"].map((name) => waiter(locks, name)));
  const all = "1 sessions, 7 znodes, 1 connections, Total watches:6";
  await waitUntil("holders and waiters watch their znodes, and a heartbeat was sent", async () => {
    return await clientsOf(server) === all;
  }, CONDITION_BOUND_MS);
  await locks[Symbol.asyncDispose]();
  assertEquals(await clientsOf(server), NOTHING);
  for (const { lease } of waits) {
    assertEquals((await assertRejects(() => lease, DOMException)).name, "AbortError");
  }
  for (const lease of leases) {
    assertEquals(lease.remainingMs, 0);
    assertEquals(lease.signal.reason.reason, "disposed");
    assertEquals(await lease.release(), false, "disposal should have released the lock");
  }
});

Deno.test("ZooKeeperLock leaves no watches behind after many acquisitions", async () => {
  const rootPath = newRoot();
  await using a = new ZooKeeperLock(server.connectString, { rootPath });
  await using b = new ZooKeeperLock(server.connectString, { rootPath });
  for (let round = 0; round < 10; round++) {
    await Promise.all(
      [a, b, a, b, a, b].map((locks) => locks.acquire("n").then((lease) => lease.release())),
    );
  }
  const holder = await a.acquire("n");
  for (let round = 0; round < 30; round++) (await waiter(b, "n")).abort();
  // The server counts one watch per connection and znode. The holder's session and the waiter's each
  // watch the holder's znode.
  await waitUntil("only the two watches on the holder's znode are left", async () => {
    return (await clientsOf(server)).endsWith("Total watches:2");
  }, CONDITION_BOUND_MS);
  await holder.release();
  await waitUntil("no watch is left", async () => {
    return (await clientsOf(server)).endsWith("Total watches:0");
  }, CONDITION_BOUND_MS);
});

Deno.test("ZooKeeperLock is disposed of in time while it connects, in an outage and in a black hole", async () => {
  await Promise.all((["connecting", "outage", "black hole"] as const).map(async (fault) => {
    await using proxy = startProxy(server);
    const locks = through(proxy, 800);
    const waits: Promise<unknown>[] = [];
    if (fault === "connecting") proxy.blackHole("both");
    else {
      await locks.acquire("n");
      waits.push((await waiter(locks, "n")).lease);
    }
    if (fault === "black hole") proxy.blackHole("both");
    if (fault === "outage") {
      await proxy.refuse(true);
      proxy.cutAll();
    }
    const another = locks.acquire("m");
    another.catch(() => {});
    const isCut = () => (proxy.connections === 0) === (fault === "outage");
    await waitUntil(`the fault is there (${fault})`, isCut, CONDITION_BOUND_MS);
    // The server would answer later than this: never, while the fault lasts.
    await within(`disposal in time (${fault})`, locks[Symbol.asyncDispose]());
    for (const wait of [...waits, another]) await assertRejects(() => wait, DOMException);
    if (fault === "black hole") proxy.heal();
  }));
  // The server drops the sessions at their timeout at the latest.
  await nothingLeft(server);
});

Deno.test("ZooKeeperLock is disposed of at once in an outage when it has no session", async () => {
  await using proxy = startProxy(server);
  await proxy.refuse(true);
  const locks = through(proxy, LONG_BOUND_MS);
  const call = locks.acquire("n", { waitMs: 0 });
  await assertRejects(() => call, LockUnavailableError);
  await within("disposal", locks[Symbol.asyncDispose](), CONDITION_BOUND_MS / 2);
});

Deno.test("ZooKeeperLock ends its session at the server when an outage ends during its disposal", async () => {
  await using proxy = startProxy(server);
  const servers = countedServers(proxy);
  const locks = new ZooKeeperLock(servers.list, {
    disposeTimeoutMs: CONDITION_BOUND_MS,
    rootPath: newRoot(),
    sessionTimeoutMs: LONG_SESSION_MS,
  });
  await locks.query("n"); // opens the session
  await proxy.refuse(true);
  proxy.cutAll();
  await servers.triedAgain();
  const disposed = locks[Symbol.asyncDispose]();
  await proxy.refuse(false);
  await within("disposal", disposed);
  // Sooner than by the session timeout.
  await nothingLeft(server, scaled(10_000));
});

function releaseWhenLost(lease: Lease): void {
  const release = () => void lease.release();
  if (lease.signal.aborted) release();
  else lease.signal.addEventListener("abort", release);
}

Deno.test("ZooKeeperLock leaves nothing on the server when it is disposed of during requests", async () => {
  for (let i = 0; i < MOMENTS; i++) {
    await using proxy = startProxy(server);
    const locks = through(proxy, CONDITION_BOUND_MS);
    const moment = Promise.withResolvers<void>();
    let requests = 0;
    proxy.onRequest = operations(() => {
      if (++requests * MOMENTS >= i * MOST_REQUESTS) moment.resolve();
    });
    const calls = Array.from({ length: 10 }, (_, n) => locks.acquire(`n${n % 3}`));
    for (const call of calls) call.then(releaseWhenLost, () => {});
    await moment.promise;
    await locks[Symbol.asyncDispose]();
    for (const call of calls) {
      const error = await call.then((lease) => lease.signal.reason ?? null, (error) => error);
      assert(error.name === "AbortError" || error.reason === "disposed", String(error));
    }
    assertEquals(await clientsOf(server), NOTHING);
  }
});

Deno.test("ZooKeeperLock in await using keeps the block's error when disposal gets no answer", async () => {
  const error = new Error("the block's own");
  const thrown = await assertRejects(async () => {
    await using proxy = startProxy(server);
    await using locks = through(proxy, 300, ENDING_SESSION_MS);
    await using _lease = await locks.acquire("n");
    proxy.blackHole("both");
    throw error;
  });
  assert(thrown === error);
});

for (const isAnswered of [true, false]) {
  const when = isAnswered ? "" : " when the server does not answer";
  Deno.test(`ZooKeeperLock with disposeTimeoutMs 0 releases all locks and ends its session${when}`, async () => {
    await using proxy = startProxy(server);
    const locks = new ZooKeeperLock(`127.0.0.1:${proxy.port}`, {
      disposeTimeoutMs: 0,
      rootPath: newRoot(),
      sessionTimeoutMs: LONG_SESSION_MS,
    });
    const leases = await Promise.all(["a", "b", "c"].map((name) => locks.acquire(name)));
    if (!isAnswered) proxy.onReply = () => "drop";
    await locks[Symbol.asyncDispose]();
    for (const lease of leases) assertEquals(lease.signal.reason.reason, "disposed");
    // Sooner than by the session timeout.
    await nothingLeft(server, scaled(10_000));
  });
}

async function keepAtDisposal(): Promise<Shown> {
  const rootPath = newRoot();
  await using proxy = startProxy(server);
  await using others = new ZooKeeperLock(server.connectString, { rootPath });
  const locks = new ZooKeeperLock(`127.0.0.1:${proxy.port}`, {
    rootPath,
    sessionTimeoutMs: SESSION_TIMEOUT_MS,
    disposeTimeoutMs: CONDITION_BOUND_MS,
  });
  using stalls = watchStalls();
  const lease = await locks.acquire("n");
  const disposed = locks[Symbol.asyncDispose]();
  let beats = 0;
  proxy.onRequest = operations((operation) => {
    if (operation === "setData") beats++;
  });
  // There are six in a session timeout.
  while (beats < 8) {
    const taken = await others.tryAcquire("n");
    if (taken !== null && stalls.longestMs > SESSION_TIMEOUT_MS / 4) {
      await taken.release();
      await lease.release(); // it is lost: disposal must not wait for it
      await disposed;
      return "stalled";
    }
    assertEquals(taken, null);
    await pause(50);
  }
  assertEquals(await lease.release(), true);
  await disposed;
  await using next = await others.acquire("n");
  next.throwIfLost();
  return "shown";
}

Deno.test("ZooKeeperLock keeps its session, and a lock, at disposal for longer than the session timeout", () =>
  untilShown(keepAtDisposal));
