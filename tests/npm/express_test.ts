/** Express on Node, which has another `node:http` than Deno, with the npm package. */
import { assert, assertEquals } from "@std/assert";
import { BUNDLE_PACKAGES, bundleTests } from "../../testing/npm/bundled_tests.ts";
import { installSkip } from "../../testing/npm/install.ts";
import { NODE_22, NODE_24, NODE_26, runtimeSkip } from "../../testing/npm/runtimes.ts";

const PACKAGES = {
  "express": "express@5.3.0",
  "express-4": "express-4@npm:express@4.22.3",
};
const RUNS = Deno.env.get("HOLDFAST_SOAK") ? [NODE_22, NODE_24, NODE_26] : [NODE_22];
const skips = await Promise.all([
  ...[...BUNDLE_PACKAGES, ...Object.values(PACKAGES)].map((spec) => installSkip([spec])),
  ...RUNS.map(runtimeSkip),
]);
const skip = skips.find((reason) => reason !== undefined);

Deno.test({
  name: `expressLock() of the npm package has the same behaviour on Node` +
    (skip === undefined ? "" : ` [skipped: ${skip}]`),
  ignore: skip !== undefined,
  async fn() {
    await using bundled = await bundleTests("tests/http/express_test.ts", PACKAGES);
    for (const runtime of RUNS) {
      const reports = await bundled.run(runtime, {});
      assertEquals(reports.filter(({ error }) => error !== null), [], runtime.name);
      assert(reports.length >= 15, `only ${reports.length} tests`);
    }
  },
});
