/**
 * Servers that stop answering while a lock is held. No other client may see that the holder's znode is
 * deleted while the holder's lease is still valid.
 *
 * @module
 */
import { assert, assertEquals, assertThrows } from "@std/assert";
import { startProxy } from "../../testing/servers/proxy.ts";
import { pause, waitUntil } from "../../testing/servers/wait.ts";
import { CONDITION_BOUND_MS, ENDING_SESSION_MS, scaled } from "../../testing/time.ts";
import { startZooKeeper, type ZooKeeperServer } from "../../testing/servers/zookeeper.ts";
import { LeaseLostError } from "../../core/contract/errors.ts";
import { type Lease, ZooKeeperLock } from "../../zookeeper/mod.ts";
import { nothingLeft } from "../../testing/zookeeper/leaks.ts";
import { observing } from "../../testing/zookeeper/observer.ts";
import { randomFrom } from "../../testing/processes/random.ts";
import { type Shown, untilShown, watchStalls } from "../../testing/processes/stalls.ts";
import { newRoot, waiter } from "../../testing/zookeeper/waiter.ts";
import { operations } from "../../testing/zookeeper/wire.ts";

/** How often each kind of silence is tried with each session timeout. */
const [HOLES, STOPS] = Deno.env.get("HOLDFAST_SOAK") ? [20, 20] : [2, 1];
/** How many black holes are tried at the same time. */
const AT_A_TIME = 5;
const SESSION_TIMEOUTS_MS = Deno.env.get("HOLDFAST_SOAK") ? [1_000, 4_000] : [scaled(2_000)];

let server: ZooKeeperServer;

Deno.test.beforeAll(async () => {
  server = await startZooKeeper();
});
Deno.test.afterAll(async () => {
  await server[Symbol.asyncDispose]();
});

/**
 * Waits until the znode of a holder is deleted. By then its lease must be lost, with its signal
 * aborted.
 */
async function outlived(path: string, lease: Lease): Promise<void> {
  const { signal } = lease;
  await observing(server.connectString, async (observer) => {
    while (await observer.exists(path)) await pause(1);
    assertEquals(lease.remainingMs, 0);
    assert(signal.aborted, "the holder should be notified");
    assertEquals(signal.reason.reason, "session-expired");
    assertThrows(() => lease.throwIfLost(), LeaseLostError);
  });
}

/** Returns the path of the holder's znode. */
async function znodeOf(parent: string): Promise<string> {
  const [name] = await observing(server.connectString, (observer) => observer.children(parent));
  return `${parent}/${name}`;
}

// Paces a workload: the moment between two heartbeats at which the fault begins.
async function blackHole(sessionTimeoutMs: number, beforeMs: number): Promise<Shown> {
  const rootPath = newRoot();
  await using proxy = startProxy(server);
  const way = `127.0.0.1:${proxy.port}`;
  await using locks = new ZooKeeperLock(way, { rootPath, sessionTimeoutMs });
  const lease = await locks.acquire("n");
  const path = await znodeOf(`${rootPath}/n`);
  await pause(beforeMs);
  if (!lease.isHeld) return "stalled";
  proxy.blackHole("both");
  await outlived(path, lease);
  proxy.heal();
  await (await locks.acquire("n")).release();
  return "shown";
}

/** Suspends the server. Returns whether the lease was held until then. */
// Paces a workload: when the fault begins, and how long it lasts until the server is resumed.
async function suspend(lease: Lease, beforeMs: number, durationMs: number): Promise<boolean> {
  await pause(beforeMs);
  const { isHeld } = lease;
  await server.pause();
  await pause(durationMs);
  return isHeld;
}

for (const sessionTimeoutMs of SESSION_TIMEOUTS_MS) {
  Deno.test(`ZooKeeperLock loses its lease before the server drops the session in a black hole (${sessionTimeoutMs} ms)`, async () => {
    const random = randomFrom("black holes");
    for (let i = 0; i < HOLES; i += AT_A_TIME) {
      const runs = Array.from({ length: Math.min(AT_A_TIME, HOLES - i) }, async (_, i) => {
        // Each one begins at a different moment between two heartbeats.
        const beforeMs = 20 * i + random() * sessionTimeoutMs / 2;
        await untilShown(() => blackHole(sessionTimeoutMs, beforeMs));
      });
      await Promise.all(runs);
    }
    await nothingLeft(server);
  });

  Deno.test(`ZooKeeperLock loses its lease before a suspended server drops the session (${sessionTimeoutMs} ms)`, async () => {
    const random = randomFrom("stops");
    const rootPath = newRoot();
    let lost = 0;
    // A late machine may have lost a lease before the server is suspended.
    for (let i = 0; i < STOPS || (lost === 0 && i < STOPS + 5); i++) {
      await using locks = new ZooKeeperLock(server.connectString, { rootPath, sessionTimeoutMs });
      const lease = await locks.acquire("n");
      const path = await znodeOf(`${rootPath}/n`);
      // Until one is lost, longer than the timeout. Others may be shorter, and the session may survive.
      const timeouts = lost === 0 ? 1.1 : 0.7 + random() * 0.8;
      const beforeMs = random() * sessionTimeoutMs / 4;
      const wasHeld = await suspend(lease, beforeMs, sessionTimeoutMs * timeouts);
      const { aborted } = lease.signal;
      await server.resume();
      if (aborted && wasHeld) lost++;
      if (!aborted) await lease.release();
      else await outlived(path, lease);
    }
    assert(lost > 0);
    await nothingLeft(server);
  });
}

Deno.test("ZooKeeperLock ends its session when the server is silent for the session timeout, though it waits for no answer", async () => {
  await using proxy = startProxy(server);
  await using locks = new ZooKeeperLock(`127.0.0.1:${proxy.port}`, {
    rootPath: newRoot(),
    sessionTimeoutMs: ENDING_SESSION_MS,
  });
  await (await locks.acquire("n")).release();
  let [pings, latest] = [0, 0];
  proxy.onRequest = operations((operation, connection) => {
    if (operation !== "ping") return;
    pings = connection === latest ? pings + 1 : 1;
    latest = connection;
  });
  // Longer than the timeout, of which a ping is sent every third: their answers keep the connection.
  await waitUntil("pings have kept it", async () => {
    // A stall may have ended the session: a call begins the next one.
    if (proxy.connections === 0) await (await locks.acquire("n")).release();
    return pings >= 5;
  }, CONDITION_BOUND_MS);
  proxy.blackHole("to-client");
  const isClosed = () => proxy.connections === 0;
  await waitUntil("the client has closed its connection", isClosed, CONDITION_BOUND_MS);
  proxy.heal();
  await (await locks.acquire("n")).release();
});

// Paces a workload: events that come in shorter intervals than those in which a silent client sends a ping.
async function releaseSlowly(leases: readonly Lease[], everyMs: number): Promise<void> {
  for (const lease of leases) {
    await lease.release();
    await pause(everyMs);
  }
}

async function waitAmongEvents(): Promise<Shown> {
  const rootPath = newRoot();
  const sessionTimeoutMs = scaled(2_000);
  await using holder = new ZooKeeperLock(server.connectString, { rootPath });
  await using locks = new ZooKeeperLock(server.connectString, { rootPath, sessionTimeoutMs });
  const names = Array.from({ length: 12 }, (_, i) => `left-${i}`);
  const leases = await Promise.all(names.map((name) => holder.acquire(name)));
  const held = await holder.acquire("n");
  // Each of these waits leaves a watch on the holder's znode, whose event nobody needs.
  const given = await Promise.all(names.map((name) => waiter(locks, name)));
  const watches = async () => {
    const summary = await server.fourLetterWord("wchs");
    return Number(/Total watches:(\d+)/.exec(summary)![1]);
  };
  const areSet = async () => await watches() >= 2 * names.length;
  await waitUntil("all watches are set", areSet, CONDITION_BOUND_MS);
  for (const { abort } of given) abort();
  const { lease } = await waiter(locks, "n");
  const shown = await observing(server.connectString, async (observer): Promise<Shown> => {
    const queue = await observer.children(`${rootPath}/n`);
    using stalls = watchStalls();
    await releaseSlowly(leases, sessionTimeoutMs / 8);
    const after = await observer.children(`${rootPath}/n`);
    if (stalls.longestMs > sessionTimeoutMs / 4) return "stalled";
    assertEquals(after, queue);
    return "shown";
  });
  await held.release();
  await (await lease).release();
  return shown;
}

Deno.test("ZooKeeperLock keeps its session and its place when nothing but events arrives for the session timeout", () => {
  return untilShown(waitAmongEvents);
});
