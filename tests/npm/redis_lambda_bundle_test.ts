import { assert, assertEquals } from "@std/assert";
import { installPackages, installSkip } from "../../testing/npm/install.ts";
import { linkedProject } from "../../testing/npm/project.ts";
import { NODE_22, programOf, runtimeSkip } from "../../testing/npm/runtimes.ts";
import { startRedis } from "../../testing/servers/redis.ts";

const ESBUILD = "esbuild@0.28.2";
const REDIS = "redis@6.3.1";
const INVOCATIONS = Deno.env.get("HOLDFAST_SOAK") ? 500 : 50;
/** node-redis is CommonJS: in a bundle of ES modules, it needs a `require()`. */
const REQUIRE =
  'import { createRequire } from "node:module"; const require = createRequire(import.meta.url);';
const skip = await installSkip([ESBUILD]) ?? await installSkip([REDIS]) ??
  await runtimeSkip(NODE_22);

Deno.test({
  name: "lambdaLock(): bundles in ESM and in CommonJS exclude each other on Node 22" +
    (skip === undefined ? "" : ` [skipped: ${skip}]`),
  ignore: skip !== undefined,
  async fn() {
    await using redis = await startRedis();
    await using project = await linkedProject({
      redis: `${await installPackages([REDIS])}/redis`,
    });
    const node = await programOf(NODE_22);
    const source = await project.copy("lambda.mjs");
    const script = await project.copy("invoke.mjs");
    const esbuild = `${await installPackages([ESBUILD])}/esbuild/bin/esbuild`;
    const bundles = { esm: `${project.folder}/esm.mjs`, cjs: `${project.folder}/cjs.cjs` };
    for (const [format, file] of Object.entries(bundles)) {
      const options = ["--bundle", "--platform=node", "--target=node22", "--minify"];
      const build = [esbuild, source, ...options, `--format=${format}`, `--outfile=${file}`];
      if (format === "esm") build.push(`--banner:js=${REQUIRE}`);
      const { success, output } = await project.run(build);
      assert(success, output);
      assert(!/\[WARNING\]/.test(output), output);
    }
    // A bundle needs no packages.
    await Deno.remove(`${project.folder}/node_modules`, { recursive: true });
    const runs = await Promise.all(
      Object.values(bundles).map((bundle) =>
        project.run([node, script, bundle, "counter", String(INVOCATIONS)], {
          REDIS_URL: redis.url,
        })
      ),
    );
    const tokens = runs.flatMap(({ success, output }) => {
      assert(success, output);
      return JSON.parse(output) as string[];
    });
    assertEquals(tokens.length, 2 * INVOCATIONS);
    assertEquals(new Set(tokens).size, tokens.length);
    assertEquals(await redis.command("GET", "counter"), String(2 * INVOCATIONS));
  },
});
