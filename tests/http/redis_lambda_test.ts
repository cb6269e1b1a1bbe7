import { redisPlace } from "./places.ts";
import { integrationSuite } from "./suite.ts";

integrationSuite("lambda", "redis × node-redis", () => redisPlace("node-redis"));
