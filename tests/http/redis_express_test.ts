import { redisPlace } from "../../testing/http/places.ts";
import { integrationSuite } from "../../testing/http/suite.ts";

integrationSuite("express", "redis × ioredis", () => redisPlace("ioredis"));
