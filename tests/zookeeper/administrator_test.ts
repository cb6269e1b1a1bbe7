/**
 * An administrator, or another tool, deletes or writes to znodes while they are used.
 *
 * @module
 */
import { assert, assertEquals, assertRejects } from "@std/assert";
import { LockUnavailableError } from "../../mod.ts";
import { pause, waitUntil } from "../../testing/servers/wait.ts";
import { startProxy } from "../../testing/servers/proxy.ts";
import { startZooKeeper, type ZooKeeperServer } from "../../testing/servers/zookeeper.ts";
import { type Lease, ZooKeeperLock } from "../../zookeeper/mod.ts";
import { CONDITION_BOUND_MS, KEPT_SESSION_MS } from "../../testing/time.ts";
import { nothingLeft } from "../../testing/zookeeper/leaks.ts";
import { type Observer, observing } from "../../testing/zookeeper/observer.ts";
import { operations } from "../../testing/zookeeper/wire.ts";
import { randomFrom } from "../../testing/processes/random.ts";
import { newRoot, waiter } from "../../testing/zookeeper/waiter.ts";

/** How often each worker enters the critical section. */
const ROUNDS = Deno.env.get("HOLDFAST_SOAK") ? 100 : 12;

let server: ZooKeeperServer;

Deno.test.beforeAll(async () => {
  server = await startZooKeeper();
});
Deno.test.afterEach(() => nothingLeft(server));
Deno.test.afterAll(async () => {
  await server[Symbol.asyncDispose]();
});

interface Visit {
  readonly lease: Lease;
  isStolen: boolean | null;
}

/**
 * Runs workers in several sessions, and checks that at most one at a time has a lease that was not
 * stolen.
 */
// Paces a workload: the workers hold the lock, and rest, for some ms.
async function workers(
  rootPath: string,
  { sessions, each, holdMs = 10, restMs = 0, isEnough = () => true }: {
    sessions: number;
    each: number;
    holdMs?: number;
    restMs?: number;
    /** The workers go on until it is. */
    isEnough?: () => boolean;
  },
) {
  const startMs = performance.now();
  const isOver = (rounds: number) =>
    rounds >= ROUNDS && (isEnough() || performance.now() - startMs > CONDITION_BOUND_MS);
  let calls = 0;
  const random = randomFrom("rests");
  const tokens: bigint[] = [];
  let stolen = 0;
  let inside: Visit | null = null;
  const enter = async (lease: Lease) => {
    tokens.push(lease.fencingToken);
    const before = inside;
    const visit: Visit = inside = { lease, isStolen: null };
    // A previous holder that is still inside must have lost its znode, and is notified of that.
    if (before !== null) {
      const isNotified = () => before.lease.signal.aborted || before.isStolen !== null;
      await waitUntil("the previous holder is notified", isNotified, CONDITION_BOUND_MS);
      assert(before.isStolen ?? before.lease.signal.reason.reason === "stolen", "two holders");
    }
    await pause(holdMs);
    if (inside === visit) inside = null;
    visit.isStolen = !await lease.release();
    if (visit.isStolen) stolen++;
    await pause(random() * restMs);
  };
  const work = async () => {
    await using locks = new ZooKeeperLock(server.connectString, {
      rootPath,
      sessionTimeoutMs: KEPT_SESSION_MS,
    });
    const worker = async () => {
      for (let i = 0; !isOver(i); i++) {
        calls++;
        await enter(await locks.acquire("n"));
      }
    };
    await Promise.all(Array.from({ length: each }, worker));
  };
  await Promise.all(Array.from({ length: sessions }, work));
  assertEquals(tokens.length, calls, "each worker should be served in each round");
  assertEquals(new Set(tokens).size, tokens.length, "each token should be unique");
  return { stolen };
}

/** Calls `meddle` again and again until the work is done; returns how often it succeeded. */
async function meddling(work: Promise<unknown>, meddle: (observer: Observer) => Promise<void>) {
  let isOver = false;
  let deleted = 0;
  const done = work.finally(() => isOver = true);
  done.catch(() => {});
  await observing(server.connectString, async (observer) => {
    while (!isOver) {
      await meddle(observer).then(() => void deleted++, () => {}); // Another client was faster.
      await pause(2);
    }
  });
  await done;
  return deleted;
}

Deno.test("ZooKeeperLock.acquire() serves all callers, one at a time, when waiters' znodes are deleted at random", async () => {
  const rootPath = newRoot();
  const random = randomFrom("deleted waiters");
  const work = workers(rootPath, { sessions: 3, each: 4 });
  const deleted = await meddling(work, async (observer) => {
    // Far from the head of the queue, so that its owner does not hold the lock before it is deleted.
    const waiting = (await observer.children(`${rootPath}/n`)).slice(4);
    const name = waiting[Math.floor(random() * waiting.length)];
    await observer.remove(`${rootPath}/n/${name}`);
  });
  assert(deleted > 10);
  assertEquals((await work).stolen, 0);
});

Deno.test("ZooKeeperLock loses each lease whose znode is deleted, and the next waiter gets the lock", async () => {
  const rootPath = newRoot();
  const work = workers(rootPath, { sessions: 3, each: 2 });
  const deleted = await meddling(work, async (observer) => {
    const [holder] = await observer.children(`${rootPath}/n`);
    await observer.remove(`${rootPath}/n/${holder}`);
  });
  assert(deleted > 10);
  assert((await work).stolen > 5);
});

Deno.test("ZooKeeperLock.acquire() serves all callers when the lock's znode and the root path are deleted while empty", async () => {
  const rootPath = newRoot();
  let roots = 0;
  // All three must rest at once.
  const isEnough = () => roots > 0;
  const work = workers(rootPath, { sessions: 3, each: 1, holdMs: 0, restMs: 40, isEnough });
  const deleted = await meddling(work, async (observer) => {
    await observer.remove(`${rootPath}/n`);
    // All that is left are the znodes of heartbeats.
    for (const name of await observer.children(rootPath)) {
      await observer.remove(`${rootPath}/${name}`).catch(() => {});
    }
    await observer.remove(rootPath).then(() => void roots++, () => {});
  });
  assert(deleted > 0 && roots > 0, `${deleted} parents, ${roots} roots`);
  assertEquals((await work).stolen, 0);
});

Deno.test("ZooKeeperLock grants the lock to the third in line when the first two znodes are deleted together", async () => {
  const rootPath = newRoot();
  await using locks = new ZooKeeperLock(server.connectString, { rootPath });
  await using others = new ZooKeeperLock(server.connectString, { rootPath });
  await observing(server.connectString, async (observer) => {
    for (const order of [[0, 1], [1, 0]]) {
      const holder = await locks.acquire("n");
      const second = await waiter(others, "n");
      const third = await waiter(locks, "n");
      const names = await observer.children(`${rootPath}/n`);
      await Promise.all(order.map((i) => observer.remove(`${rootPath}/n/${names[i]}`)));
      const lease = await third.lease;
      await waitUntil(
        "the holder is notified",
        () => holder.signal.aborted,
        CONDITION_BOUND_MS,
      );
      const snapshot = await locks.query("n");
      assertEquals(snapshot.holders[0]?.fencingToken, lease.fencingToken);
      // The second entered the queue again behind the third, or it held the lock for a moment and its
      // lease was lost.
      const early: Lease[] = [];
      second.lease.then((lease) => early.push(lease));
      await waitUntil("the second waits, or its lease is lost", async () => {
        return early[0]?.signal.aborted || (await locks.query("n")).waiters.length === 1;
      });
      const waits = early.length === 0;
      assertEquals(await lease.release(), true);
      assertEquals(await (await second.lease).release(), waits);
      assertEquals(await holder.release(), false);
    }
  });
});

Deno.test("ZooKeeperLock grants the lock to no waiter when another client writes to the holder's znode", async () => {
  const rootPath = newRoot();
  await using locks = new ZooKeeperLock(server.connectString, { rootPath });
  await using proxy = startProxy(server);
  const sent: string[] = [];
  proxy.onRequest = operations((operation) => sent.push(operation));
  await using others = new ZooKeeperLock(`127.0.0.1:${proxy.port}`, { rootPath });
  const count = (wanted: string) => sent.filter((operation) => operation === wanted).length;
  const holder = await locks.acquire("n");
  const { lease } = await waiter(others, "n");
  let isGranted = false;
  lease.then(() => isGranted = true);
  // The holder watches its own znode, too, after a while.
  await waitUntil("the waiter watches both znodes", async () => {
    return (await server.fourLetterWord("wchs")).includes("Total watches:3");
  }, CONDITION_BOUND_MS);
  const reads = count("getData");
  await observing(server.connectString, async (observer) => {
    const [name] = await observer.children(`${rootPath}/n`);
    await observer.write(`${rootPath}/n/${name}`);
  });
  const isWatchedAgain = () => isGranted || count("getChildren") > 1 && count("getData") > reads;
  await waitUntil("the waiter goes on", isWatchedAgain, CONDITION_BOUND_MS);
  assertEquals(isGranted, false);
  holder.throwIfLost();
  assertEquals(await holder.release(), true);
  assertEquals(await (await lease).release(), true);
});

Deno.test("ZooKeeperLock: release() is false when the znode was deleted before the first delete could be sent", async () => {
  const rootPath = newRoot();
  await using proxy = startProxy(server);
  await using locks = new ZooKeeperLock(`127.0.0.1:${proxy.port}`, {
    rootPath,
    sessionTimeoutMs: KEPT_SESSION_MS,
    unavailableAfterMs: 200,
  });
  const lease = await locks.acquire("n");
  await proxy.refuse(true);
  proxy.cutAll();
  await observing(server.connectString, async (observer) => {
    const [holder] = await observer.children(`${rootPath}/n`);
    await observer.remove(`${rootPath}/n/${holder}`);
  });
  await assertRejects(() => locks.query("n"), LockUnavailableError); // it knows that it is not connected
  const released = lease.release();
  await proxy.refuse(false);
  assertEquals(await released, false);
});
