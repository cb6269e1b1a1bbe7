/** Leaders in several processes on ZooKeeper, under kills, freezes and partitions. */
import { checkLeaders } from "../../testing/recipes/leaders.ts";
import { startZooKeeper } from "../../testing/servers/zookeeper.ts";
import { ENDING_SESSION_MS } from "../../testing/time.ts";

const SOAK = Boolean(Deno.env.get("HOLDFAST_SOAK"));
Deno.test({
  name: "lead() on ZooKeeper has never two leaders under kills, freezes and partitions" +
    (SOAK ? "" : " [soak only]"),
  ignore: !SOAK,
  fn: async () => {
    await using server = await startZooKeeper();
    await checkLeaders({
      server,
      spec: ({ port }) => ({
        ...{ strategy: "zookeeper", connectString: `127.0.0.1:${port}` } as const,
        ...{ rootPath: "/leaders", sessionTimeoutMs: ENDING_SESSION_MS },
      }),
      ...{ candidates: 5, lastsMs: 600_000, pauseMs: 3_000 },
    });
  },
});
