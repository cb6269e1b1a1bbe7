import { redisPlace } from "../../testing/http/places.ts";
import { integrationSuite } from "../../testing/http/framework_suite.ts";

integrationSuite("fastify", "redis × node-redis", () => redisPlace("node-redis"));
