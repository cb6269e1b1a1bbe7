import { npmConformance } from "../../testing/npm/conformance.ts";
import { NODE_24 } from "../../testing/npm/runtimes.ts";
import { zooKeeperForSuite } from "../../testing/npm/suite_servers.ts";

await npmConformance({
  suite: "zookeeper_test",
  runtimes: [NODE_24],
  startServer: zooKeeperForSuite,
});
