import { redisPlace } from "../../testing/http/places.ts";
import { http2Suite } from "../../testing/http/framework_suite.ts";

http2Suite(["fastify", "fetch"], "redis × node-redis", () => redisPlace("node-redis"));
