import { assert, assertEquals, assertInstanceOf, assertThrows } from "@std/assert";
import { block } from "../../testing/conformance/bounds.ts";
import { type FaultProxy, startProxy } from "../../testing/servers/proxy.ts";
import { waitUntil } from "../../testing/servers/wait.ts";
import { startZooKeeper, type ZooKeeperServer } from "../../testing/servers/zookeeper.ts";
import {
  CONDITION_BOUND_MS,
  KEPT_SESSION_MS,
  LONG_SESSION_MS,
  scaled,
} from "../../testing/time.ts";
import { FakeLock } from "../../fake/mod.ts";
import { LeaseLostError, type RenewalLate } from "../../mod.ts";
import { traceEvents } from "../../testing/core/traced_events.ts";
import { lossTrace } from "../../testing/fake/loss_trace.ts";
import { type Lease, ZooKeeperLock } from "../../zookeeper/mod.ts";
import { observing } from "../../testing/zookeeper/observer.ts";
import { type Shown, untilShown, watchStalls } from "../../testing/processes/stalls.ts";
import { newRoot, waiter } from "../../testing/zookeeper/waiter.ts";
import {
  endSession,
  operations,
  type SessionKey,
  sessionKeys,
} from "../../testing/zookeeper/wire.ts";

const LATE_SESSION_MS = scaled(4_000);

let server: ZooKeeperServer;

Deno.test.beforeAll(async () => {
  server = await startZooKeeper();
});
Deno.test.afterAll(async () => {
  await server[Symbol.asyncDispose]();
});

function through(
  proxy: FaultProxy,
  rootPath: string,
  sessionTimeoutMs = KEPT_SESSION_MS,
): ZooKeeperLock {
  return new ZooKeeperLock(`127.0.0.1:${proxy.port}`, {
    rootPath,
    sessionTimeoutMs,
    unavailableAfterMs: CONDITION_BOUND_MS,
  });
}

/** Waits until the lease is lost; returns the reason. */
async function lossOf({ signal }: Lease): Promise<string> {
  await waitUntil("the lease is lost", () => signal.aborted, CONDITION_BOUND_MS);
  assertInstanceOf(signal.reason, LeaseLostError);
  return signal.reason.reason;
}

/** Ends the session of the one client behind the proxy. */
async function expire(proxy: FaultProxy, key: SessionKey): Promise<void> {
  await proxy.refuse(true);
  proxy.cutAll();
  await endSession(server.port, key);
  await proxy.refuse(false);
}

/** Waits until the server keeps a watch on a znode. */
async function watched(path: string): Promise<void> {
  const isWatched = async () => (await server.fourLetterWord("wchp")).includes(`${path}\n`);
  await waitUntil("the holder watches its znode", isWatched, CONDITION_BOUND_MS);
}

Deno.test("ZooKeeperLock loses a lease as stolen when its znode is deleted", async () => {
  const rootPath = newRoot();
  await using locks = new ZooKeeperLock(server.connectString, {
    rootPath,
    sessionTimeoutMs: KEPT_SESSION_MS,
  });
  await observing(server.connectString, async (observer) => {
    const holder = async () => `${rootPath}/n/${(await observer.children(`${rootPath}/n`))[0]}`;
    const deleteHolder = async () => await observer.remove(await holder());
    // Before the holder watches its znode, while it does, and after another client wrote to the znode.
    for (const isWatched of [false, true]) {
      const lease = await locks.acquire("n");
      if (isWatched) await watched(await holder());
      await deleteHolder();
      assertEquals(await lossOf(lease), "stolen");
      assertEquals(await lease.release(), false);
    }
    const lease = await locks.acquire("n");
    const path = await holder();
    await watched(path);
    // A write uses the watch up before it is answered.
    for (let i = 0; i < 3; i++) await observer.write(path);
    await watched(path);
    lease.throwIfLost();
    await deleteHolder();
    assertEquals(await lossOf(lease), "stolen");
    // A holder that had to wait has watched its znode from the start.
    const first = await locks.acquire("n");
    const { lease: next } = await waiter(locks, "n");
    await first.release();
    const second = await next;
    await deleteHolder();
    assertEquals(await lossOf(second), "stolen");
  });
});

/** Counts the heartbeats of the clients behind a proxy. */
function countBeats(proxy: FaultProxy): () => number {
  let beats = 0;
  proxy.onRequest = operations((operation) => {
    if (operation === "setData") beats++;
  });
  return () => beats;
}

Deno.test("ZooKeeperLock watches a holder's znode after a tenth of the session timeout", async () => {
  const rootPath = newRoot();
  await using proxy = startProxy(server);
  const requests: string[] = [];
  proxy.onRequest = operations((operation) => void requests.push(operation));
  await using locks = through(proxy, rootPath, scaled(20_000));
  const lease = await locks.acquire("n");
  await observing(server.connectString, async (observer) => {
    const [holder] = await observer.children(`${rootPath}/n`);
    await observer.remove(`${rootPath}/n/${holder}`);
  });
  assertEquals(await lossOf(lease), "stolen");
  const [watched, beat] = [requests.indexOf("getData"), requests.indexOf("setData")];
  assert(
    watched >= 0 && (beat < 0 || watched < beat),
    "the watch comes before the first heartbeat",
  );
});

Deno.test("ZooKeeperLock loses a lease as stolen at its reconnect when its znode was deleted in an outage", async () => {
  const rootPath = newRoot();
  await using proxy = startProxy(server);
  await using locks = through(proxy, rootPath, LONG_SESSION_MS);
  const beats = countBeats(proxy);
  const lease = await locks.acquire("n");
  await observing(server.connectString, async (observer) => {
    const [holder] = await observer.children(`${rootPath}/n`);
    await proxy.refuse(true);
    proxy.cutAll();
    await observer.remove(`${rootPath}/n/${holder}`);
    await proxy.refuse(false);
    assertEquals(await lossOf(lease), "stolen");
    assertEquals(beats(), 0, "the watch should notify the holder, not the next heartbeat");
  });
});

Deno.test("ZooKeeperLock.acquire() enters the queue again, behind the others, when its znode is deleted", async () => {
  const rootPath = newRoot();
  await using locks = new ZooKeeperLock(server.connectString, { rootPath });
  const first = await locks.acquire("n");
  const served: string[] = [];
  const note = (name: string) => (lease: Lease) => {
    served.push(name);
    return lease.release();
  };
  const b = (await waiter(locks, "n")).lease.then(note("b"));
  const c = (await waiter(locks, "n")).lease.then(note("c"));
  await observing(server.connectString, async (observer) => {
    const before = await observer.children(`${rootPath}/n`);
    await observer.remove(`${rootPath}/n/${before[1]}`);
    await waitUntil("the call is in the queue again", async () => {
      const names = await observer.children(`${rootPath}/n`);
      return names.length === 3 && names[1] === before[2];
    });
  });
  await first.release();
  await Promise.all([b, c]);
  assertEquals(served, ["c", "b"]);
});

Deno.test("ZooKeeperLock has one holder again, and never two, when all znodes of a lock are deleted", async () => {
  const rootPath = newRoot();
  await using locks = new ZooKeeperLock(server.connectString, {
    rootPath,
    sessionTimeoutMs: KEPT_SESSION_MS,
  });
  const first = await locks.acquire("n");
  let inside = 0;
  const waits = await Promise.all(Array.from({ length: 5 }, () => waiter(locks, "n")));
  const done = waits.map(async ({ lease }) => {
    const held = await lease;
    assertEquals(++inside, 1);
    await locks.query("n"); // time in which a second holder could enter
    inside--;
    await held.release();
  });
  await observing(server.connectString, async (observer) => {
    for (const name of (await observer.children(`${rootPath}/n`)).reverse()) {
      await observer.remove(`${rootPath}/n/${name}`);
    }
    await observer.remove(`${rootPath}/n`).catch(() => {}); // A waiter may already have a new znode.
  });
  assertEquals(await lossOf(first), "stolen");
  await Promise.all(done);
});

Deno.test("ZooKeeperLock loses all leases when its session expires, and opens the next session", async () => {
  const rootPath = newRoot();
  await using proxy = startProxy(server);
  const keys: SessionKey[] = [];
  proxy.onReply = sessionKeys((key) => void keys.push(key));
  await using locks = through(proxy, rootPath);
  await using others = new ZooKeeperLock(server.connectString, { rootPath });
  const leases = [await locks.acquire("a"), await locks.acquire("b")];
  const mine = await waiter(locks, "a");
  const theirs = await waiter(others, "a");
  await expire(proxy, keys[0]!);
  for (const lease of leases) {
    assertEquals(await lossOf(lease), "session-expired");
    assertEquals(lease.remainingMs, 0);
    assertEquals(await lease.release(), false);
  }
  // Our waiter lost its place with the session, and is behind the other one now.
  const next = await theirs.lease;
  assert(next.fencingToken > leases[0]!.fencingToken);
  await next.release();
  const again = await mine.lease;
  assert(again.fencingToken > next.fencingToken);
  await again.release();
  await (await locks.acquire("b")).release();
  assert(keys.at(-1)!.id !== keys[0]!.id);
});

Deno.test("ZooKeeperLock keeps its leases and places when the server restarts within the session timeout", async () => {
  const rootPath = newRoot();
  await using server = await startZooKeeper();
  await using locks = new ZooKeeperLock(server.connectString, {
    rootPath,
    sessionTimeoutMs: 2 * KEPT_SESSION_MS,
    unavailableAfterMs: CONDITION_BOUND_MS,
  });
  const lease = await locks.acquire("n");
  const next = await waiter(locks, "n");
  await server.restart();
  await lease.renew();
  lease.throwIfLost();
  assertEquals(await lease.release(), true);
  assertEquals(await (await next.lease).release(), true);
});

/** Blocks the process for longer than its lease. Returns whether the client ended its znode before the server. */
async function blockTooLong(): Promise<boolean> {
  const rootPath = newRoot();
  await using proxy = startProxy(server);
  const requests: string[] = [];
  const sessionTimeoutMs = scaled(5_000);
  await using locks = through(proxy, rootPath, sessionTimeoutMs);
  await using others = new ZooKeeperLock(server.connectString, {
    rootPath,
    sessionTimeoutMs: LONG_SESSION_MS,
  });
  await (await others.acquire("other")).release();
  const lease = await locks.acquire("n");
  proxy.onRequest = operations((operation) => void requests.push(operation));
  await waitUntil("heartbeats alone prove the session", () => {
    return requests.filter((operation) => operation === "setData").length >= 3;
  });
  // The lease is over after two thirds of the timeout, the session after all of it.
  block(sessionTimeoutMs * 0.78);
  assertEquals(lease.remainingMs, 0);
  assertThrows(() => lease.throwIfLost(), LeaseLostError, "its session expired");
  await (await others.acquire("n")).release();
  const isEnded = requests.includes("delete") || requests.includes("closeSession");
  assertEquals(await lease.release(), false);
  await (await locks.acquire("n")).release();
  return isEnded;
}

Deno.test("ZooKeeperLock loses its lease, and deletes its znode, when the process was blocked for too long", async () => {
  let tries = 0;
  // The server is first if the machine stalls for another fifth of the timeout.
  while (!await blockTooLong()) {
    assert(++tries < 3, "the client should delete the znode, before the server does");
  }
});

/** Returns whether this process stalled when it should have warned: then it shows nothing. */
async function fallSilent(): Promise<Shown> {
  await using proxy = startProxy(server);
  const late: RenewalLate[] = [];
  using events = traceEvents();
  await using locks = new ZooKeeperLock(`127.0.0.1:${proxy.port}`, {
    rootPath: newRoot(),
    sessionTimeoutMs: LATE_SESSION_MS,
    onRenewalLate: (event) => late.push(event),
  });
  const leases = [await locks.acquire("a"), await locks.acquire("b")];
  if (late.length > 0) return "stalled"; // the server did: the warning came before the fault
  using stalls = watchStalls();
  proxy.blackHole("both");
  for (const lease of leases) await lossOf(lease);
  if (late.length < leases.length && stalls.longestMs > LATE_SESSION_MS / 5) return "stalled";
  assertEquals(late.map(({ name }) => name).sort(), ["a", "b"]);
  for (const { remainingMs } of late) assert(remainingMs > 0 && remainingMs <= LATE_SESSION_MS / 3);
  const published = events.of("renewalLate").map(({ name, remainingMs }) => ({
    name,
    remainingMs,
  }));
  assertEquals(published, late);
  const lost = events.of("lost").map(({ error }) => error);
  assertEquals(lost.length, leases.length);
  assertEquals(new Set(lost), new Set(leases.map(({ signal }) => signal.reason)));
  return "shown";
}

Deno.test("ZooKeeperLock calls onRenewalLate once for each lease before the server falls silent for too long", async () => {
  await untilShown(fallSilent);
});

Deno.test("FakeLock.loseLease() shows its holder what ZooKeeperLock does: session-expired", async () => {
  await using proxy = startProxy(server);
  const keys: SessionKey[] = [];
  proxy.onReply = sessionKeys((key) => void keys.push(key));
  await using locks = through(proxy, newRoot());
  const real = await lossTrace(locks, () => expire(proxy, keys[0]!));
  await using fake = new FakeLock();
  assertEquals(await lossTrace(fake, ({ name }) => fake.loseLease(name, "session-expired")), real);
});
