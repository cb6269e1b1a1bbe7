/** Ticks of a schedule on ZooKeeper, whose winners are killed: the mark ends with the session. */
import { checkKilledTicks } from "../../testing/recipes/ticks.ts";
import { startZooKeeper } from "../../testing/servers/zookeeper.ts";

const SOAK = Boolean(Deno.env.get("HOLDFAST_SOAK"));
/** Longer than an event loop is blocked, and shorter than the processes differ. */
const SESSION_MS = 3_000;

Deno.test({
  name: "runOnce() on ZooKeeper runs a tick twice only if its winner was killed" +
    (SOAK ? "" : " [soak only]"),
  ignore: !SOAK,
  fn: async () => {
    await using server = await startZooKeeper();
    const { connectString } = server;
    const place = { connectString, rootPath: "/ticks", sessionTimeoutMs: SESSION_MS };
    await checkKilledTicks({ strategy: "zookeeper", ...place });
  },
});
