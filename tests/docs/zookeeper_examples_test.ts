import { exampleSuite } from "../../testing/docs/example_suite.ts";
import { startZooKeeper } from "../../testing/servers/zookeeper.ts";

exampleSuite("zookeeper", {
  async start() {
    const server = await startZooKeeper();
    return Object.assign(server, { address: server.connectString });
  },
});
