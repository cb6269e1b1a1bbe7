import { redisClusterSkip } from "../../testing/servers/redis_cluster.ts";
import { redisClusterHarness } from "../../testing/conformance/redis_cluster_harness.ts";
import { conformance, conformanceOfWaiting } from "../../testing/conformance/suite.ts";

/** The soak runs the whole suite; ioredis on a cluster always does. */
const register = Deno.env.get("HOLDFAST_SOAK") ? conformance : conformanceOfWaiting;
register(redisClusterHarness("node-redis-cluster", await redisClusterSkip()));
