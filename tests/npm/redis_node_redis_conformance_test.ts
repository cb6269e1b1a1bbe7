import { npmConformance } from "../../testing/npm/conformance.ts";
import { BUN } from "../../testing/npm/runtimes.ts";
import { redisForSuite } from "../../testing/npm/suite_servers.ts";

await npmConformance({
  suite: "redis_node_redis_test",
  runtimes: [BUN],
  startServer: redisForSuite,
});
