/**
 * A server whose lock is refused by ZooKeeper: that is not an outage, so no request runs without the lock.
 */
import { assertEquals } from "@std/assert";
import { LockSetupError } from "../../mod.ts";
import { ZooKeeperLock } from "../../zookeeper/mod.ts";
import { fetchApi } from "../../testing/http/one_route.ts";
import { startZooKeeper } from "../../testing/servers/zookeeper.ts";
import { observing, RIGHTS } from "../../testing/zookeeper/observer.ts";
import { newRoot } from "../../testing/zookeeper/waiter.ts";

Deno.test("fetchLock() never runs the handler when ZooKeeper denies access (NO_AUTH)", async () => {
  await using server = await startZooKeeper();
  const rootPath = newRoot();
  await observing(server.connectString, async (observer) => {
    await observer.make(`${rootPath}/key`);
    await observer.permit(rootPath, RIGHTS.READ);
  });
  await using locks = new ZooKeeperLock(server.connectString, { rootPath });
  await locks.query("key").catch(() => {}); // connects, for which a bounded wait may be too short
  let handled = 0;
  for (const waitMs of [0, 1_000]) {
    const serving = await fetchApi(() => {
      handled++;
      return new Response("done");
    }, { waitMs, onUnavailable: "proceed" })(locks);
    const response = await fetch(serving.url);
    await response.text();
    assertEquals(response.status, 500);
    await serving.stop();
    const error = await locks.tryAcquire("key").catch((error) => error);
    assertEquals(error instanceof LockSetupError, true);
  }
  assertEquals(handled, 0);
});
