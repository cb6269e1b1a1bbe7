import { redisPlace } from "../../testing/http/places.ts";
import { integrationSuite } from "../../testing/http/framework_suite.ts";

integrationSuite("hono", "redis × ioredis", () => redisPlace("ioredis"));
