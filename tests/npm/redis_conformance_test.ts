import { npmConformance, type SuiteServer } from "../../testing/npm/conformance.ts";
import { BUN, NODE_22 } from "../../testing/npm/runtimes.ts";
import { startRedis } from "../../testing/servers/redis.ts";

async function startServer(): Promise<SuiteServer> {
  const server = await startRedis();
  return { ...server, kind: "redis", address: server.url };
}

await npmConformance({ suite: "redis_ioredis_test", runtimes: [NODE_22], startServer });
await npmConformance({ suite: "redis_node_redis_test", runtimes: [BUN], startServer });
