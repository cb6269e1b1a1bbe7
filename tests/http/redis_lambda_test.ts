import { redisPlace } from "../../testing/http/places.ts";
import { integrationSuite } from "../../testing/http/framework_suite.ts";

integrationSuite("lambda", "redis × node-redis", () => redisPlace("node-redis"));
