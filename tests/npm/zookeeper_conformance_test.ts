import { npmConformance, type SuiteServer } from "../../testing/npm/conformance.ts";
import { NODE_24 } from "../../testing/npm/runtimes.ts";
import { startZooKeeper } from "../../testing/servers/zookeeper.ts";

async function startServer(): Promise<SuiteServer> {
  const server = await startZooKeeper();
  return { ...server, kind: "zookeeper", address: server.connectString };
}

await npmConformance({ suite: "zookeeper_test", runtimes: [NODE_24], startServer });
