/**
 * Shared and exclusive entries in one queue: what an instance knows of its own holders must not let a waiter
 * in while a shared holder of another instance is ahead. What all strategies do is in
 * `testing/conformance/modes.ts`.
 */
import { assert, assertEquals } from "@std/assert";
import { within } from "../../testing/conformance/bounds.ts";
import { startProxy } from "../../testing/servers/proxy.ts";
import { startZooKeeper, type ZooKeeperServer } from "../../testing/servers/zookeeper.ts";
import { waitUntil } from "../../testing/servers/wait.ts";
import { observing } from "../../testing/zookeeper/observer.ts";
import { newRoot } from "../../testing/zookeeper/waiter.ts";
import { operations } from "../../testing/zookeeper/wire.ts";
import { type AcquireOptions, ZooKeeperLock } from "../../zookeeper/mod.ts";

const SHARED = { mode: "shared" } as const;

let server: ZooKeeperServer;

Deno.test.beforeAll(async () => {
  server = await startZooKeeper();
});
Deno.test.afterAll(async () => {
  await server[Symbol.asyncDispose]();
});

/** Two instances, X and Y, and the entries of their calls in the queue. */
function stage(rootPath: string, connectString = server.connectString) {
  const instances = {
    X: new ZooKeeperLock(connectString, { rootPath }),
    Y: new ZooKeeperLock(server.connectString, { rootPath }),
  };
  const granted: string[] = [];
  let entries = 0;
  return {
    granted,
    ...instances,
    /** Makes a call; resolves when its entry is in the queue, in the order of the calls. */
    async enter(name: string, where: "X" | "Y", options: AcquireOptions = {}) {
      entries++;
      const lease = instances[where].acquire("n", options);
      lease.then(() => granted.push(name), () => {});
      await waitUntil(`${name} is in the queue`, async () => {
        const { holderCount, waiterCount } = await instances.Y.query("n");
        return holderCount + waiterCount === entries;
      });
      return {
        lease,
        async leave() {
          const held = await within(`${name} is granted`, lease);
          assertEquals(await held.release(), true);
          entries--;
        },
      };
    },
    async [Symbol.asyncDispose]() {
      await instances.X[Symbol.asyncDispose]();
      await instances.Y[Symbol.asyncDispose]();
    },
  };
}

/** Whether the server has executed what X has sent so far, and X has read the answers. */
async function settled({ X }: { readonly X: ZooKeeperLock }): Promise<void> {
  for (let i = 0; i < 3; i++) await X.query("n");
}

for (const first of ["X", "Y"] as const) {
  for (const leaving of [[0, 1], [1, 0]]) {
    const whose = first === "X" ? "its own" : "another";
    const order = leaving[0] === 0 ? "in order" : "out of order";
    Deno.test(`a writer behind a reader of its instance waits for one of ${whose}, who leave ${order}`, async () => {
      for (const between of [false, true]) {
        await using queue = stage(newRoot());
        const readers = [
          await queue.enter("R1", first, SHARED),
          await queue.enter("R2", "X", SHARED),
        ];
        // Without another entry in between, the sequence numbers show that R2 is directly ahead of W.
        const third = between ? await queue.enter("R3", "Y", SHARED) : null;
        const writer = await queue.enter("W", "X");
        const behind = await queue.enter("R4", "X", SHARED);
        await third?.leave();
        await readers[leaving[0]!]!.leave();
        await settled(queue);
        const granted = third === null ? ["R1", "R2"] : ["R1", "R2", "R3"];
        assertEquals(queue.granted, granted, "a reader still holds the lock");
        await readers[leaving[1]!]!.leave();
        await within("the writer is granted", writer.lease);
        await settled(queue);
        assertEquals(queue.granted, [...granted, "W"]);
        await writer.leave();
        await behind.leave();
      }
    });
  }
}

Deno.test("readers behind a writer of their instance are granted together when it leaves, and watch nothing else", async () => {
  await using proxy = startProxy(server);
  await using queue = stage(newRoot(), `127.0.0.1:${proxy.port}`);
  const writer = await queue.enter("W", "X");
  const readers = [];
  for (const name of ["R1", "R2", "R3"]) readers.push(await queue.enter(name, "X", SHARED));
  const other = await queue.enter("R4", "Y", SHARED);
  const last = await queue.enter("W2", "Y");
  await settled(queue);
  const seen: string[] = [];
  proxy.onRequest = operations((operation) => void seen.push(operation));
  await writer.leave();
  const all = Promise.all([...readers, other].map(({ lease }) => lease));
  await within("all readers are granted the lock", all);
  assertEquals(seen.filter((operation) => operation === "getChildren"), []);
  assertEquals(queue.granted.length, 5);
  for (const reader of [readers[1]!, other, readers[0]!]) await reader.leave();
  await settled(queue);
  assertEquals(queue.granted.length, 5, "R3 still holds the lock");
  await readers[2]!.leave();
  await last.leave();
});

Deno.test("ZooKeeperLock.acquire() in shared mode takes one round trip when the lock is free, and two requests of another reader's lock", async () => {
  await using proxy = startProxy(server);
  await using queue = stage(newRoot(), `127.0.0.1:${proxy.port}`);
  await (await queue.X.acquire("n", SHARED)).release(); // opens the session
  const seen: string[] = [];
  proxy.onRequest = operations((operation) => {
    if (operation !== "setData" && operation !== "ping") seen.push(operation);
  });
  await (await queue.X.acquire("n", SHARED)).release();
  assertEquals(seen, ["create", "getChildren", "delete"]);
  await using _other = await queue.Y.acquire("n", SHARED);
  seen.length = 0;
  await (await queue.X.acquire("n", SHARED)).release();
  assertEquals(seen, ["create", "getChildren", "getData", "delete"]); // its token is its own czxid
});

Deno.test("ZooKeeperLock.tryAcquire() in shared mode looks at exclusive entries only", async () => {
  await using queue = stage(newRoot());
  const { X, Y } = queue;
  const held = await Y.tryAcquire("n", SHARED);
  const all = await Promise.all(Array.from({ length: 10 }, (_, i) => {
    return (i % 2 ? X : Y).tryAcquire("n", SHARED);
  }));
  assert(all.every((lease) => lease !== null));
  assertEquals(await X.tryAcquire("n"), null);
  for (const lease of all) await lease!.release();
  // An exclusive try that fails at the same time must not make a shared one fail.
  let counted = 0;
  for (let round = 0; round < 30 && counted < 10; round++) {
    const startMs = performance.now();
    const [none, lease] = await Promise.all([X.tryAcquire("n"), Y.tryAcquire("n", SHARED)]);
    assertEquals(none, null);
    // On a busy machine it may take longer to leave than the other one waits for it. That this time is
    // 100 ms is shown by acquisition_test.ts, on a fake clock.
    if (lease !== null) counted++;
    else assert(performance.now() - startMs > 95, "it should get the lock, as readers held it");
    await lease?.release();
  }
  assert(counted > 0, "at least one round should be fast enough to count");
  await held!.release();
});

Deno.test("a shared reader that was deleted by an administrator while it waited starts over", async () => {
  const rootPath = newRoot();
  await using queue = stage(rootPath);
  const writer = await queue.enter("W", "Y");
  const readers = [await queue.enter("R1", "X", SHARED), await queue.enter("R2", "X", SHARED)];
  await observing(server.connectString, async (observer) => {
    const children = await observer.children(`${rootPath}/n`);
    assertEquals(children.filter((name) => name.includes("-read-lock-")).length, 2);
    await observer.remove(`${rootPath}/n/${children[1]}`);
    await waitUntil("it has a new entry", async () => {
      const now = await observer.children(`${rootPath}/n`);
      return now.length === 3 && now[1] === children[2];
    });
  });
  const last = await queue.enter("W2", "Y");
  await writer.leave();
  for (const reader of readers) await reader.leave();
  await last.leave();
});
