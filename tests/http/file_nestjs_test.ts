import { filePlace } from "../../testing/http/places.ts";
import { integrationSuite } from "../../testing/http/framework_suite.ts";

integrationSuite("nestjs", "file", filePlace, { isSoakOnly: true });
integrationSuite("nestjs-fastify", "file", filePlace, { isSoakOnly: true });
