import { conformance } from "../../testing/conformance/suite.ts";
import { zooKeeperHarness } from "../../testing/conformance/zookeeper_harness.ts";
import { conformanceZooKeeper } from "../../testing/servers/zookeeper.ts";

conformance(zooKeeperHarness("zookeeper", conformanceZooKeeper));
