/**
 * Many calls at once for locks that are free.
 *
 * @module
 */
import { assert, assertEquals } from "@std/assert";
import { say } from "../../testing/processes/figures.ts";
import { startZooKeeper } from "../../testing/servers/zookeeper.ts";
import { nothingLeft } from "../../testing/zookeeper/leaks.ts";
import { newRoot } from "../../testing/zookeeper/waiter.ts";
import { ZooKeeperLock } from "../../zookeeper/mod.ts";

/** The soak runs the full figure. */
const SIZES = Deno.env.get("HOLDFAST_SOAK") ? [1_000, 3_000, 10_000] : [2_500];

for (const size of SIZES) {
  for (const method of ["acquire", "tryAcquire"] as const) {
    Deno.test(`ZooKeeperLock.${method}() takes ${size} free locks at once, keeps a held lease, and works afterwards`, async () => {
      await using server = await startZooKeeper();
      const rootPath = newRoot();
      const locks = new ZooKeeperLock(server.connectString, { rootPath, disposeTimeoutMs: 20_000 });
      const held = await locks.acquire("held");
      const startMs = performance.now();
      const names = Array.from({ length: size }, (_, i) => `free-${i}`);
      const leases = await Promise.all(names.map((name) => locks[method](name)));
      const grantedMs = performance.now();
      held.throwIfLost();
      const released = await Promise.all(leases.map((lease) => lease!.release()));
      say(
        `${size} locks: granted in ${Math.round(grantedMs - startMs)} ms, ` +
          `released in ${Math.round(performance.now() - grantedMs)} ms`,
      );
      assert(released.every((isOurs) => isOurs), "each release should say that the lock was ours");
      await (await locks.acquire("after")).release();
      held.throwIfLost();
      assertEquals(await held.release(), true);
      await locks[Symbol.asyncDispose]();
      await nothingLeft(server);
    });
  }
}
