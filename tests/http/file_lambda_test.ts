import { filePlace } from "../../testing/http/places.ts";
import { integrationSuite } from "../../testing/http/suite.ts";

integrationSuite("lambda", "file", filePlace, { isSoakOnly: true });
