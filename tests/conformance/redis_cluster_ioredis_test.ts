import { redisClusterSkip } from "../servers/redis_cluster.ts";
import { redisClusterHarness } from "./redis_cluster_harness.ts";
import { conformance } from "./suite.ts";

conformance(redisClusterHarness("ioredis-cluster", await redisClusterSkip()));
