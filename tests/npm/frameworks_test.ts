/** Express and NestJS on Node, which has another `node:http` than Deno, with the npm package. */
import { assert, assertEquals } from "@std/assert";
import { BUNDLE_PACKAGES, bundleTests } from "../../testing/npm/bundled_tests.ts";
import { installSkip } from "../../testing/npm/install.ts";
import { NODE_22, NODE_24, NODE_26, runtimeSkip } from "../../testing/npm/runtimes.ts";

/** Test files, the packages that they import, and how many tests they have at least. */
interface Framework {
  readonly files: readonly string[];
  readonly packages: Readonly<Record<string, string>>;
  readonly least: number;
}

const NEST = ["common", "core", "platform-express"].map((part) => `@nestjs/${part}`);
const EXPRESS: Readonly<Record<string, Framework>> = {
  "expressLock()": {
    files: ["tests/http/express_test.ts", "tests/http/express_loss_test.ts"],
    packages: { "express": "express@5.3.0", "express-4": "express-4@npm:express@4.22.3" },
    least: 18,
  },
};
const NESTJS: Readonly<Record<string, Framework>> = {
  "@Lock() of NestJS": {
    files: ["tests/http/nestjs_test.ts"],
    packages: {
      ...Object.fromEntries(NEST.map((name) => [name, `${name}@12.5.1`])),
      "@nestjs/platform-fastify": "@nestjs/platform-fastify@12.5.0",
      "rxjs": "rxjs@7.8.2",
      "reflect-metadata": "reflect-metadata@0.2.2",
    },
    least: 17,
  },
};
const isSoak = Boolean(Deno.env.get("HOLDFAST_SOAK"));
/** In the test task, the application of `nestjs_test.ts` runs on Node. */
const FRAMEWORKS = isSoak ? { ...EXPRESS, ...NESTJS } : EXPRESS;
const RUNS = isSoak ? [NODE_22, NODE_24, NODE_26] : [NODE_22];
const runtimeSkips = await Promise.all(RUNS.map(runtimeSkip));
const bundleSkips = await Promise.all(BUNDLE_PACKAGES.map((spec) => installSkip([spec])));

for (const [name, { files, packages, least }] of Object.entries(FRAMEWORKS)) {
  const skips = [...runtimeSkips, ...bundleSkips, await installSkip(Object.values(packages))];
  const skip = skips.find((reason) => reason !== undefined);
  Deno.test({
    name: `${name} of the npm package has the same behaviour on Node` +
      (skip === undefined ? "" : ` [skipped: ${skip}]`),
    ignore: skip !== undefined,
    async fn() {
      await using stack = new AsyncDisposableStack();
      const bundles = await Promise.all(files.map((file) => bundleTests(file, packages)));
      for (const bundled of bundles) stack.use(bundled);
      for (const runtime of RUNS) {
        const reports = (await Promise.all(bundles.map((each) => each.run(runtime, {})))).flat();
        assertEquals(reports.filter(({ error }) => error !== null), [], runtime.name);
        assert(reports.length >= least, `only ${reports.length} tests`);
      }
    },
  });
}
