import { snippetSuite } from "../../testing/docs/snippet_suite.ts";
import { redisSentinelSkip, startRedisSentinels } from "../../testing/servers/redis_sentinel.ts";
import { startSecureSentinels } from "../../testing/servers/redis_sentinel_tls.ts";
import { redisTlsSkip } from "../../testing/servers/redis_tls.ts";

await snippetSuite("redis-sentinel", {
  skip: await redisSentinelSkip(),
  async start() {
    const servers = await startRedisSentinels();
    return Object.assign(servers, { address: `port: ${servers.sentinels[0]!.port}` });
  },
});

await snippetSuite("redis-sentinel-tls", {
  skip: await redisSentinelSkip() ?? await redisTlsSkip(),
  async start() {
    const servers = await startSecureSentinels("s3cret");
    return Object.assign(servers, { address: `port: ${servers.port}` });
  },
});
