import { assert, assertEquals } from "@std/assert";
import { startProxy } from "../../testing/servers/proxy.ts";
import { pause } from "../../testing/servers/wait.ts";
import { startZooKeeper } from "../../testing/servers/zookeeper.ts";
import { ZooKeeperLock } from "../../zookeeper/mod.ts";
import { CONDITION_BOUND_MS, KEPT_SESSION_MS } from "../../testing/time.ts";
import { nothingLeft } from "../../testing/zookeeper/leaks.ts";
import { randomFrom } from "../../testing/processes/random.ts";
import { newRoot } from "../../testing/zookeeper/waiter.ts";

/** How often each worker enters the critical section, or more often until there were enough cuts. */
const ROUNDS = Deno.env.get("HOLDFAST_SOAK") ? 200 : 4;
const LEAST_CUTS = 11;
const SESSIONS = 4;
const WORKERS = 3;

Deno.test("ZooKeeperLock keeps all leases and serves all waiters when connections are cut again and again", async () => {
  const rootPath = newRoot();
  const random = randomFrom("cuts of all connections");
  await using server = await startZooKeeper();
  let inside = 0;
  let entered = 0;
  let cuts = 0;
  let isOver = false;
  // Paces a workload: workers hold the lock for some ms, while connections are cut.
  const session = async () => {
    await using proxy = startProxy(server);
    await using locks = new ZooKeeperLock(`127.0.0.1:${proxy.port}`, {
      rootPath,
      sessionTimeoutMs: KEPT_SESSION_MS,
      unavailableAfterMs: CONDITION_BOUND_MS,
      disposeTimeoutMs: CONDITION_BOUND_MS,
    });
    const worker = async () => {
      for (let i = 0; i < ROUNDS || cuts < LEAST_CUTS; i++) {
        const lease = await locks.acquire("n");
        assertEquals(++inside, 1);
        entered++;
        await pause(random() * 5);
        lease.throwIfLost();
        inside--;
        assertEquals(await lease.release(), true);
      }
    };
    const cutting = (async () => {
      while (!isOver) {
        await pause(50 + random() * 250);
        if (proxy.connections > 0) cuts++;
        proxy.cutAll();
      }
    })();
    await Promise.all(Array.from({ length: WORKERS }, worker));
    await cutting;
  };
  const sessions = Array.from({ length: SESSIONS }, session);
  const total = SESSIONS * WORKERS * ROUNDS;
  try {
    while (entered < total || cuts < LEAST_CUTS) await Promise.race([pause(20), ...sessions]);
  } finally {
    isOver = true;
  }
  await Promise.all(sessions);
  assert(entered >= total, `${entered} of ${total}`);
  await nothingLeft(server);
});
