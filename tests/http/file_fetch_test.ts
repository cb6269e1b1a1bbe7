import { filePlace } from "../../testing/http/places.ts";
import { integrationSuite } from "../../testing/http/framework_suite.ts";

integrationSuite("fetch", "file", filePlace);
