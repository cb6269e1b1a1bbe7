/** `ZooKeeperLock.query()` of a lock that changes hands faster than a round trip. */
import { assertEquals, assertLess } from "@std/assert";
import { within } from "../../testing/conformance/bounds.ts";
import { startProxy } from "../../testing/servers/proxy.ts";
import { startZooKeeper } from "../../testing/servers/zookeeper.ts";
import { LONG_SESSION_MS } from "../../testing/time.ts";
import { ZooKeeperLock } from "../../zookeeper/mod.ts";

const QUERIES = 5;

Deno.test("ZooKeeperLock.query() answers although each holder that it reads has left", async () => {
  await using server = await startZooKeeper();
  await using proxy = await startProxy({ hostname: "127.0.0.1", port: server.port });
  await using busy = new ZooKeeperLock(server.connectString);
  await using slow = new ZooKeeperLock(`127.0.0.1:${proxy.port}`, {
    sessionTimeoutMs: LONG_SESSION_MS,
  });
  await slow.query("n"); // opens the session
  proxy.onReply = () => ({ delayMs: 50 });
  let requests = 0;
  proxy.onRequest = () => (requests++, "pass");
  let isOver = false;
  const turns = Array.from({ length: 8 }, async () => {
    while (!isOver) await (await busy.acquire("n")).release();
  });
  try {
    for (let i = 0; i < QUERIES; i++) {
      const { holders, holderCount } = await within(
        "it answers",
        slow.query("n", { maxWaiters: 0 }),
      );
      assertEquals(holders.length, holderCount);
      for (const { mode } of holders) assertEquals(mode, "exclusive");
    }
    assertLess(requests, 4 * QUERIES, "a list and a read for each, and heartbeats");
  } finally {
    isOver = true;
    await Promise.all(turns);
  }
});
