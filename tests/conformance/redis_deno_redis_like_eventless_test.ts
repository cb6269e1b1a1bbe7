import { redisHarness } from "../../testing/conformance/redis_harness.ts";
import { conformance, conformanceOfWaiting } from "../../testing/conformance/suite.ts";

/** The soak runs the whole suite; the client with events always does. */
const register = Deno.env.get("HOLDFAST_SOAK") ? conformance : conformanceOfWaiting;
register(redisHarness("deno-redis-like-eventless"));
