import { npmConformance } from "../../testing/npm/conformance.ts";
import { RUNTIMES } from "../../testing/npm/runtimes.ts";

await npmConformance({ suite: "memory_test", runtimes: RUNTIMES });
