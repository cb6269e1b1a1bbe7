import { redisPlace } from "./places.ts";
import { integrationSuite } from "./suite.ts";

integrationSuite("fastify", "redis × node-redis", () => redisPlace("node-redis"));
