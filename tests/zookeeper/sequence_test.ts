import { assert, assertEquals, assertRejects } from "@std/assert";
import { ownSource } from "../../testing/servers/find.ts";
import { startZooKeeper } from "../../testing/servers/zookeeper.ts";
import { LockSetupError } from "../../core/contract/errors.ts";
import { MAX_SEQUENCE } from "../../zookeeper/recipe/queue_order.ts";
import { ZooKeeperLock } from "../../zookeeper/mod.ts";
import { CONDITION_BOUND_MS } from "../../testing/time.ts";
import { setNextSequence } from "../../testing/zookeeper/forge.ts";
import { nothingLeft } from "../../testing/zookeeper/leaks.ts";
import { observing } from "../../testing/zookeeper/observer.ts";
import { newRoot, waiter } from "../../testing/zookeeper/waiter.ts";

const { kind } = await ownSource("zookeeper");

Deno.test({
  name: "ZooKeeperLock grants no lock at the end of the sequence numbers, where two could hold it" +
    (kind === "local" ? "" : " [skipped: the files of a container are out of reach]"),
  ignore: kind !== "local",
  async fn() {
    const rootPath = newRoot();
    await using server = await startZooKeeper();
    {
      await using locks = new ZooKeeperLock(server.connectString, {
        rootPath,
        unavailableAfterMs: CONDITION_BOUND_MS,
      });
      await (await locks.acquire("n")).release();
      await observing(server.connectString, async (observer) => {
        // Without a child, the lock's znode would be deleted at disposal.
        await observer.make(`${rootPath}/n/keep`);
      });
    }
    await setNextSequence(server, `${rootPath}/n`, MAX_SEQUENCE - 2);
    await using a = new ZooKeeperLock(server.connectString, { rootPath });
    await using b = new ZooKeeperLock(server.connectString, { rootPath });
    // These two get the last numbers that show the order.
    const last = await a.acquire("n");
    const { lease } = await waiter(b, "n");
    const waiting = await observing(server.connectString, (o) => o.children(`${rootPath}/n`));
    assert(waiting.some((name) => name.endsWith(String(MAX_SEQUENCE - 1))), waiting.join());
    const refusals = Array.from({ length: 6 }, (_, i) => (i % 2 ? a : b).acquire("n"));
    for (const refused of refusals) refused.catch(() => {}); // They reject in any order.
    for (const refused of refusals) {
      await assertRejects(() => refused, LockSetupError, "are used up");
    }
    await last.release();
    await (await lease).release();
    for (const locks of [a, b]) {
      await assertRejects(() => locks.acquire("n"), LockSetupError, "are used up");
      await assertRejects(() => locks.tryAcquire("n"), LockSetupError, "are used up");
    }
    // The error message advises to delete the znode.
    await observing(server.connectString, async (observer) => {
      assertEquals(await observer.children(`${rootPath}/n`), ["keep"]);
      await observer.remove(`${rootPath}/n/keep`);
      await observer.remove(`${rootPath}/n`);
    });
    await (await a.acquire("n")).release();
    for (const locks of [a, b]) await locks[Symbol.asyncDispose]();
    await nothingLeft(server);
  },
});
