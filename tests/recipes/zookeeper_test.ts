/** The recipes on ZooKeeper. */
import { zooKeeperHarness } from "../../testing/conformance/zookeeper_harness.ts";
import { recipes } from "../../testing/recipes/suite.ts";
import { conformanceZooKeeper } from "../../testing/servers/zookeeper.ts";

recipes(zooKeeperHarness("zookeeper", conformanceZooKeeper));
