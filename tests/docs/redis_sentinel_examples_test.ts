import { exampleSuite } from "../../testing/docs/example_suite.ts";
import { redisSentinelSkip, startRedisSentinels } from "../../testing/servers/redis_sentinel.ts";

exampleSuite("redis-sentinel", {
  skip: await redisSentinelSkip(),
  async start() {
    const servers = await startRedisSentinels();
    return Object.assign(servers, { address: `port: ${servers.sentinels[0]!.port}` });
  },
});
