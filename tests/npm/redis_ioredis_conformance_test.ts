import { npmConformance } from "../../testing/npm/conformance.ts";
import { NODE_26 } from "../../testing/npm/runtimes.ts";
import { redisForSuite } from "../../testing/npm/suite_servers.ts";

await npmConformance({
  suite: "redis_ioredis_test",
  runtimes: [NODE_26],
  startServer: redisForSuite,
});
