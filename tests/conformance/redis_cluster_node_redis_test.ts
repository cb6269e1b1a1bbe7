import { redisClusterSkip } from "../../testing/servers/redis_cluster.ts";
import { redisClusterHarness } from "../../testing/conformance/redis_cluster_harness.ts";
import { conformance } from "../../testing/conformance/suite.ts";

conformance(redisClusterHarness("node-redis-cluster", await redisClusterSkip()));
