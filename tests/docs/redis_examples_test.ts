import { exampleSuite } from "../../testing/docs/example_suite.ts";
import { startRedis } from "../../testing/servers/redis.ts";

exampleSuite("redis", {
  async start() {
    const server = await startRedis();
    return Object.assign(server, { address: String(server.port) });
  },
});
