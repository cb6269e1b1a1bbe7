import { snippetSuite } from "../../testing/docs/snippet_suite.ts";
import { redisClusterSkip, startRedisCluster } from "../../testing/servers/redis_cluster.ts";

await snippetSuite("redis-cluster", {
  skip: await redisClusterSkip(),
  async start() {
    const cluster = await startRedisCluster();
    return Object.assign(cluster, { address: new URL(cluster.url).port });
  },
});
