import { filePlace } from "./places.ts";
import { integrationSuite } from "./suite.ts";

integrationSuite("lambda", "file", filePlace);
