import { assert, assertEquals, assertRejects } from "@std/assert";
import { startProxy } from "../../testing/servers/proxy.ts";
import { CONDITION_BOUND_MS, scaled } from "../../testing/time.ts";
import { waitUntil } from "../../testing/servers/wait.ts";
import { startZooKeeper, type ZooKeeperServer } from "../../testing/servers/zookeeper.ts";
import { type Lease, ZooKeeperLock } from "../../zookeeper/mod.ts";
import { observing } from "../../testing/zookeeper/observer.ts";
import { randomFrom } from "../../testing/processes/random.ts";
import { newRoot, waiter } from "../../testing/zookeeper/waiter.ts";
import { operations } from "../../testing/zookeeper/wire.ts";

/** Short, since the test waits for heartbeats; a sixth of it is between two of them. */
const HEARTBEAT_SESSION_MS = scaled(4_000);

let server: ZooKeeperServer;

Deno.test.beforeAll(async () => {
  server = await startZooKeeper();
});
Deno.test.afterAll(async () => {
  await server[Symbol.asyncDispose]();
});

Deno.test("ZooKeeperLock.acquire() takes one round trip when the lock is free, and Lease.release() another", async () => {
  await using proxy = startProxy(server);
  await using locks = new ZooKeeperLock(`127.0.0.1:${proxy.port}`, { rootPath: newRoot() });
  await (await locks.acquire("n")).release();
  const seen: string[] = [];
  proxy.onRequest = operations((operation) => {
    // A late machine may be due for a sign of life.
    if (operation !== "setData" && operation !== "ping") seen.push(operation);
  });
  proxy.onReply = () => {
    seen.push("reply");
    // A request that was sent only after the first answer would come after this.
    return { delayMs: 100 };
  };
  const lease = await locks.acquire("n");
  assertEquals([...new Set(seen)], ["create", "getChildren", "reply"]);
  assertEquals(seen.slice(0, 2), ["create", "getChildren"]);
  seen.length = 0;
  assertEquals(await lease.release(), true);
  assertEquals([...new Set(seen)], ["delete", "reply"]); // a sign of life is answered, too
});

Deno.test("ZooKeeperLock.acquire() wakes only the next waiter at a handoff, which sends at most a heartbeat", async () => {
  const rootPath = newRoot();
  await using proxy = startProxy(server);
  await using holder = new ZooKeeperLock(server.connectString, { rootPath });
  await using next = new ZooKeeperLock(`127.0.0.1:${proxy.port}`, { rootPath });
  await using last = new ZooKeeperLock(`127.0.0.1:${proxy.port}`, { rootPath });
  const lease = await holder.acquire("n");
  const waits = [await waiter(next, "n"), await waiter(last, "n")];
  // Each waiter watches its own znode and the one before; the holder watches its own after a while.
  await waitUntil("all watches are set", async () => {
    return (await server.fourLetterWord("wchs")).includes("Total watches:5");
  }, CONDITION_BOUND_MS);
  const seen: string[] = [];
  proxy.onRequest = operations((operation) => {
    if (operation !== "ping" && operation !== "setData") seen.push(operation);
  });
  // An event comes before the first answer, and what it causes is sent before the second.
  const ask = async () => {
    for (let i = 0; i < 2; i++) await last.query("other");
    return seen.splice(0);
  };
  const asked = await ask();
  await lease.release();
  await using _granted = await waits[0]!.lease;
  assertEquals(await ask(), asked, "the last waiter should not wake");
});

/** The znodes of locks among the children of a root path. The others are those of heartbeats. */
function locksIn(children: readonly string[]): string[] {
  return children.filter((name) => !name.startsWith("%session-"));
}

Deno.test("ZooKeeperLock.acquire() creates the chroot, the root path and the lock's znode when they are missing", async () => {
  const chroot = newRoot();
  await using locks = new ZooKeeperLock(`${server.connectString}${chroot}/app`, {
    rootPath: "/x/y",
  });
  await using _lease = await locks.acquire("a/b");
  await observing(server.connectString, async (observer) => {
    assertEquals(locksIn(await observer.children(`${chroot}/app/x/y`)), ["a%2Fb"]);
  });
});

Deno.test("ZooKeeperLock.acquire() serves 20 waiters of 4 sessions in the order of their arrival", async () => {
  const rootPath = newRoot();
  const random = randomFrom("arrival");
  const locks = Array.from(
    { length: 4 },
    () => new ZooKeeperLock(server.connectString, { rootPath }),
  );
  const first = await locks[0]!.acquire("n");
  const served: number[] = [];
  const done: Promise<void>[] = [];
  for (let i = 0; i < 20; i++) {
    const { lease } = await waiter(locks[Math.floor(random() * 4)]!, "n");
    done.push(lease.then(async (lease) => {
      served.push(i);
      await lease.release();
    }));
  }
  await first.release();
  await Promise.all(done);
  assertEquals(served, Array.from({ length: 20 }, (_, i) => i));
  for (const lock of locks) await lock[Symbol.asyncDispose]();
});

Deno.test("ZooKeeperLock.acquire() reports its position in the queue, and each new one, to onWait", async () => {
  const rootPath = newRoot();
  await using locks = new ZooKeeperLock(server.connectString, { rootPath });
  const first = await locks.acquire("n");
  const second = await waiter(locks, "n");
  const reported: unknown[] = [];
  const third = locks.acquire("n", { onWait: (info) => void reported.push(info) });
  await waitUntil("the third call waits", () => reported.length > 0);
  second.abort();
  await waitUntil("the third call moves up", () => reported.length > 1);
  assertEquals(reported, [{ position: 2, waiters: 2 }, { position: 1, waiters: 1 }]);
  await first.release();
  await (await third).release();
});

Deno.test("ZooKeeperLock.acquire() leaves no znode when it is aborted at any moment", async () => {
  const rootPath = newRoot();
  const random = randomFrom("aborts");
  await using locks = new ZooKeeperLock(server.connectString, { rootPath });
  await using _lease = await locks.acquire("n");
  const waits = Array.from({ length: 60 }, async () => {
    const abort = new AbortController();
    const timer = setTimeout(() => abort.abort(new Error("enough")), random() * 20);
    const error = await assertRejects(() => locks.acquire("n", { signal: abort.signal }));
    clearTimeout(timer);
    assertEquals((error as Error).message, "enough");
  });
  await Promise.all(waits);
  await observing(server.connectString, async (observer) => {
    const queue = () => observer.children(`${rootPath}/n`);
    await waitUntil("only the holder is left", async () => (await queue()).length === 1);
  });
});

Deno.test("Lease.fencingToken grows with every grant, even when the lock's znode is deleted and created again", async () => {
  const rootPath = newRoot();
  const options = { rootPath };
  const locks = [1, 2].map(() => new ZooKeeperLock(server.connectString, options));
  const tokens: bigint[] = [];
  const note = async (lease: Lease) => {
    tokens.push(lease.fencingToken);
    await lease.release();
  };
  await observing(server.connectString, async (observer) => {
    for (let round = 0; round < 5; round++) {
      for (let i = 0; i < 4; i++) await note(await locks[i % 2]!.acquire("n"));
      const contended = [0, 1, 0, 1].map((i) => locks[i]!.acquire("n").then(note));
      await Promise.all(contended);
      await observer.remove(`${rootPath}/n`);
    }
  });
  assertEquals(tokens.length, 40);
  for (let i = 1; i < tokens.length; i++) assert(tokens[i]! > tokens[i - 1]!, tokens.join());
  for (const lock of locks) await lock[Symbol.asyncDispose]();
});

Deno.test("ZooKeeperLock.query() returns the holder and the waiters in order, and creates nothing", async () => {
  const rootPath = newRoot();
  const open = (label: string) => new ZooKeeperLock(server.connectString, { rootPath, label });
  await using a = open("Älter");
  await using b = open("b");
  await using c = open("c");
  assertEquals(await c.query("n"), {
    name: "n",
    holders: [],
    holderCount: 0,
    waiters: [],
    waiterCount: 0,
  });
  await observing(server.connectString, async (observer) => {
    assertEquals(await observer.exists(rootPath), false);
  });
  const lease = await a.acquire("n");
  const waits = [await waiter(b, "n"), await waiter(c, "n")];
  assertEquals(await c.query("n"), {
    name: "n",
    holders: [{ mode: "exclusive", label: "Älter", fencingToken: lease.fencingToken }],
    holderCount: 1,
    waiters: [{ mode: "exclusive", label: "b" }, { mode: "exclusive", label: "c" }],
    waiterCount: 2,
  });
  await lease.release();
  const second = await waits[0]!.lease;
  const { fencingToken } = second;
  assertEquals((await a.query("n")).holders, [{ mode: "exclusive", label: "b", fencingToken }]);
  await second.release();
  await (await waits[1]!.lease).release();
});

Deno.test("ZooKeeperLock waits behind the znodes of kazoo and Curator", async () => {
  const rootPath = newRoot();
  await using locks = new ZooKeeperLock(server.connectString, { rootPath });
  await observing(server.connectString, async (observer) => {
    await observer.make(`${rootPath}/n`);
    for (
      const prefix of [
        "9f6b2a1c0d3e4f5a8b7c6d5e4f3a2b1c__lock__",
        `_c_${crypto.randomUUID()}-lock-`,
      ]
    ) {
      const path = await observer.makeSequential(`${rootPath}/n/${prefix}`);
      assertEquals(await locks.tryAcquire("n"), null);
      const { lease } = await waiter(locks, "n");
      await observer.remove(path);
      await (await lease).release();
    }
  });
});

Deno.test("ZooKeeperLock deletes the znodes of its unused locks at disposal, unless another client uses them", async () => {
  const rootPath = newRoot();
  await using others = new ZooKeeperLock(server.connectString, { rootPath });
  await using _lease = await others.acquire("used");
  {
    await using locks = new ZooKeeperLock(server.connectString, { rootPath });
    for (const name of ["a", "b", "c"]) await (await locks.acquire(name)).release();
    assertEquals(await locks.tryAcquire("used"), null);
    await using _held = await locks.acquire("d");
  }
  await observing(server.connectString, async (observer) => {
    assertEquals(locksIn(await observer.children(rootPath)), ["used"]);
  });
});

Deno.test("ZooKeeperLock sends one heartbeat for all leases, and none while other writes prove the session", async () => {
  await using proxy = startProxy(server);
  await using locks = new ZooKeeperLock(`127.0.0.1:${proxy.port}`, {
    rootPath: newRoot(),
    sessionTimeoutMs: HEARTBEAT_SESSION_MS,
  });
  const leases: Lease[] = [];
  for (let i = 0; i < 8; i++) leases.push(await locks.acquire(`n${i}`));
  const beatsMs: number[] = [];
  proxy.onRequest = operations((operation) => {
    if (operation === "setData") beatsMs.push(performance.now());
  });
  await waitUntil("three heartbeats are sent", () => beatsMs.length >= 3, CONDITION_BOUND_MS);
  const everyMs = HEARTBEAT_SESSION_MS / 6;
  const tookMs = beatsMs[2]! - beatsMs[0]!;
  assert(tookMs > everyMs, `three heartbeats in ${tookMs} ms: one is enough for all leases`);
  beatsMs.length = 0;
  let [longestMs, writtenMs] = [0, performance.now()];
  const endMs = writtenMs + 2 * everyMs;
  while (writtenMs < endMs) {
    await (await locks.acquire("busy")).release();
    longestMs = Math.max(longestMs, performance.now() - writtenMs);
    writtenMs = performance.now();
  }
  // On a machine that stalls between two writes, a heartbeat is due.
  if (longestMs < everyMs / 2) {
    assert(beatsMs.length <= 1, `${beatsMs.length} heartbeats in addition to the other writes`);
  }
  for (const lease of leases) {
    lease.throwIfLost();
    const isProven = lease.remainingMs > HEARTBEAT_SESSION_MS / 2;
    assert(isProven || longestMs >= everyMs / 2, "the other writes should prove the session");
  }
});
