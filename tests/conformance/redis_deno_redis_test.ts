import { denoRedisSkip } from "../../testing/redis/clients.ts";
import { redisHarness } from "../../testing/conformance/redis_harness.ts";
import { conformance } from "../../testing/conformance/suite.ts";

conformance(redisHarness("deno-redis", await denoRedisSkip()));
