import { zooKeeperEnsembleSkip } from "../../testing/servers/zookeeper_ensemble.ts";
import { shortRun } from "../../testing/faults/short_run.ts";

const skip = await zooKeeperEnsembleSkip();

Deno.test({
  name: `ZooKeeperLock keeps its promises under faults${skip ? ` [${skip}]` : ""}`,
  ignore: skip !== undefined,
  fn: () => shortRun({ strategy: "zookeeper" }),
});
