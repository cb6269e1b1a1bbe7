import { npmConformance } from "../../testing/npm/conformance.ts";

await npmConformance({ suite: "fake_test", runtimes: [] });
