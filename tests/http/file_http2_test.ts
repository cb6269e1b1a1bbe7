import { filePlace } from "../../testing/http/places.ts";
import { http2Suite } from "../../testing/http/framework_suite.ts";

http2Suite(["koa", "hono"], "file", filePlace);
