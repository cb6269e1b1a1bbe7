/**
 * Overlapping sets of names by several processes, some of them shared, under kills and cuts.
 */
import { setsStorm } from "../../testing/load/sets_storm.ts";
import { startProxy } from "../../testing/servers/proxy.ts";
import { startZooKeeper } from "../../testing/servers/zookeeper.ts";
import { newRoot } from "../../testing/zookeeper/waiter.ts";
import { ENDING_SESSION_MS } from "../../testing/time.ts";

const SOAK = Boolean(Deno.env.get("HOLDFAST_SOAK"));

Deno.test({
  name:
    "acquireAll() of overlapping sets never deadlocks and leaks no name under kills and cuts: ZooKeeperLock" +
    (SOAK ? "" : " [soak only]"),
  ignore: !SOAK,
  async fn() {
    await using server = await startZooKeeper();
    await using proxy = startProxy(server);
    const spec = {
      strategy: "zookeeper",
      rootPath: newRoot(),
      sessionTimeoutMs: ENDING_SESSION_MS,
      connectString: server.connectString,
    } as const;
    await setsStorm({
      spec: { ...spec, connectString: `127.0.0.1:${proxy.port}` },
      calmSpec: spec,
      cut: () => proxy.cutAll(),
    });
  },
});
