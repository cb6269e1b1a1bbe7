import { redisPlace } from "./places.ts";
import { integrationSuite } from "./suite.ts";

integrationSuite("koa", "redis × ioredis", () => redisPlace("ioredis"));
