import { snippetSuite } from "../../testing/docs/snippet_suite.ts";
import { startRedis } from "../../testing/servers/redis.ts";
import { redisTlsSkip, startRedisTls } from "../../testing/servers/redis_tls.ts";

await snippetSuite("redis", {
  async start() {
    const server = await startRedis();
    return Object.assign(server, { address: String(server.port) });
  },
});
await snippetSuite("redis-tls", {
  skip: await redisTlsSkip(),
  async start() {
    const server = await startRedisTls();
    return Object.assign(server, { address: String(server.securePort) });
  },
});
