import { redisPlace } from "../../testing/http/places.ts";
import { integrationSuite } from "../../testing/http/framework_suite.ts";

// The test task has the suite on files.
if (Deno.env.get("HOLDFAST_SOAK")) {
  integrationSuite("nestjs", "redis × ioredis", () => redisPlace("ioredis"));
}
