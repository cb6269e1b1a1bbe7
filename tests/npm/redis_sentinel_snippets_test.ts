import { snippetSuite } from "../../testing/docs/snippet_suite.ts";
import { redisSentinelSkip, startRedisSentinels } from "../../testing/servers/redis_sentinel.ts";

await snippetSuite("redis-sentinel", {
  skip: await redisSentinelSkip(),
  async start() {
    const servers = await startRedisSentinels();
    return Object.assign(servers, { address: `port: ${servers.sentinels[0]!.port}` });
  },
});
