import { exampleSuite } from "../../testing/docs/example_suite.ts";
import { redisClusterSkip, startRedisCluster } from "../../testing/servers/redis_cluster.ts";

exampleSuite("redis-cluster", {
  skip: await redisClusterSkip(),
  async start() {
    const cluster = await startRedisCluster();
    return Object.assign(cluster, { address: new URL(cluster.url).port });
  },
});
