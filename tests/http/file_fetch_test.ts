import { filePlace } from "./places.ts";
import { integrationSuite } from "./suite.ts";

integrationSuite("fetch", "file", filePlace);
