import { snippetSuite } from "../../testing/docs/snippet_suite.ts";
import { startRedis } from "../../testing/servers/redis.ts";

await snippetSuite("redis", {
  async start() {
    const server = await startRedis();
    return Object.assign(server, { address: String(server.port) });
  },
});
