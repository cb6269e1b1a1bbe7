import { redisPlace } from "../../testing/http/places.ts";
import { integrationSuite } from "../../testing/http/framework_suite.ts";

integrationSuite("koa", "redis × ioredis", () => redisPlace("ioredis"));
