import { redisPlace } from "./places.ts";
import { integrationSuite } from "./suite.ts";

integrationSuite("hono", "redis × ioredis", () => redisPlace("ioredis"));
