import { redisHarness } from "./redis_harness.ts";
import { conformance } from "./suite.ts";

conformance(redisHarness("node-redis"));
