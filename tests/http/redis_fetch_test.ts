import { redisPlace } from "./places.ts";
import { integrationSuite } from "./suite.ts";

integrationSuite("fetch", "redis × node-redis", () => redisPlace("node-redis"));
