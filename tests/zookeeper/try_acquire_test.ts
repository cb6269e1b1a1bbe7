import { assert, assertEquals } from "@std/assert";
import { startProxy } from "../../testing/servers/proxy.ts";
import { waitUntil } from "../../testing/servers/wait.ts";
import { startZooKeeper, type ZooKeeperServer } from "../../testing/servers/zookeeper.ts";
import { ZooKeeperLock } from "../../zookeeper/mod.ts";
import { observing } from "../../testing/zookeeper/observer.ts";
import { newRoot } from "../../testing/zookeeper/waiter.ts";

let server: ZooKeeperServer;

Deno.test.beforeAll(async () => {
  server = await startZooKeeper();
});
Deno.test.afterAll(async () => {
  await server[Symbol.asyncDispose]();
});

Deno.test("ZooKeeperLock.tryAcquire() leaves no znode when the lock is held", async () => {
  const rootPath = newRoot();
  await using locks = new ZooKeeperLock(server.connectString, { rootPath });
  await using _lease = await locks.acquire("n");
  assertEquals(await locks.tryAcquire("n"), null);
  await observing(server.connectString, async (observer) => {
    assertEquals((await observer.children(`${rootPath}/n`)).length, 1);
  });
});

Deno.test("ZooKeeperLock.tryAcquire() gets the lock when only a tryAcquire() that failed is ahead of it", async () => {
  const rootPath = newRoot();
  await using proxy = startProxy(server);
  await using slow = new ZooKeeperLock(`127.0.0.1:${proxy.port}`, { rootPath });
  await using locks = new ZooKeeperLock(server.connectString, { rootPath });
  await (await slow.acquire("n")).release();
  let counted = 0;
  await observing(server.connectString, async (observer) => {
    for (let round = 0; round < 20 && counted < 5; round++) {
      const holder = await locks.acquire("n");
      proxy.onReply = () => ({ delayMs: 30 });
      const startMs = performance.now();
      let hasLeft = false;
      const refused = slow.tryAcquire("n").finally(() => hasLeft = true);
      await waitUntil("the slow call is in the queue, or was", async () => {
        return hasLeft || (await observer.children(`${rootPath}/n`)).length === 2;
      });
      await holder.release();
      const lease = await locks.tryAcquire("n");
      assertEquals(await refused, null);
      // On a busy machine the slow call may take longer to leave than the other one waits for it.
      if (lease !== null) counted++;
      else {assert(
          performance.now() - startMs > 95,
          "the call should get the lock, as nobody held it",
        );}
      await lease?.release();
      proxy.onReply = undefined;
    }
  });
  assert(counted > 0, "at least one round should be fast enough to count");
});
