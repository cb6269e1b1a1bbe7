import { filePlace } from "../../testing/http/places.ts";
import { integrationSuite } from "../../testing/http/suite.ts";

integrationSuite("nestjs", "file", filePlace);
if (Deno.env.get("HOLDFAST_SOAK")) integrationSuite("nestjs-fastify", "file", filePlace);
