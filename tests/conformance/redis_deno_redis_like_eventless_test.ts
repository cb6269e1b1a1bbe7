import { redisHarness } from "../../testing/conformance/redis_harness.ts";
import { conformance } from "../../testing/conformance/suite.ts";

conformance(redisHarness("deno-redis-like-eventless"));
