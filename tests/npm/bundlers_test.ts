/**
 * The npm package in bundles. What a bundle does not contain is loaded when a lock is made, from where the
 * bundle is; docs/bundlers.md says how to set up each bundler.
 */
import { assertEquals, assertMatch } from "@std/assert";
import { bundle, BUNDLERS, CLIENTS, OUTSIDE, WEBPACK } from "../../testing/npm/bundlers.ts";
import { installSkip } from "../../testing/npm/install.ts";
import { buildNextApp, NEXT, NEXT_BUNDLERS, NEXT_PACKAGES } from "../../testing/npm/next_app.ts";
import { BUN, NODE_22, programOf, runtimeSkip } from "../../testing/npm/runtimes.ts";
import { say } from "../../testing/processes/figures.ts";
import { startRedis } from "../../testing/servers/redis.ts";
import { startZooKeeper } from "../../testing/servers/zookeeper.ts";

const TESTDATA = new URL("../../testing/npm/testdata/", import.meta.url);
/** A route of Next.js that uses all strategies. */
const ROUTE = `import { useAll } from "../../uses.mjs";
  export const dynamic = "force-dynamic";
  export const GET = async () => Response.json(await useAll(JSON.parse(process.env.PLACES)));`;

const skip = await installSkip(Object.values(WEBPACK.packages)) ??
  await installSkip(Object.values({ ...CLIENTS, ...OUTSIDE })) ??
  await installSkip(Object.values(OUTSIDE)) ?? await runtimeSkip(NODE_22);

Deno.test({
  name:
    "FileLock and ZooKeeperLock in a bundle of webpack find their packages beside it, and nowhere else" +
    (skip === undefined ? "" : ` [skipped: ${skip}]`),
  ignore: skip !== undefined,
  async fn() {
    await using project = await bundle(WEBPACK, "optional_main.mjs");
    const node = await programOf(NODE_22);
    const files = Object.values(WEBPACK.bundles).map(({ file }) => file);
    const run = async (file: string) => {
      const { output } = await project.run([node, file, `${project.folder}/locks`]);
      return output;
    };
    for (const file of files) assertEquals(await run(file), "file\nzookeeper\n", file);
    await Deno.remove(`${project.folder}/node_modules`, { recursive: true });
    await using _theirs = await foreignPackage(project.builtIn);
    for (const file of files) {
      const output = await run(file);
      assertMatch(
        output,
        /LockSetupError: .*"koffi", which is not installed where ".*" can find it/,
      );
      assertMatch(output, new RegExp(`from "(file://)?${project.folder}/${file}"`), file);
    }
  },
});

/** A package that another user puts where the bundle was made. */
async function foreignPackage(folder: string): Promise<AsyncDisposable> {
  await Deno.mkdir(`${folder}/node_modules/koffi`, { recursive: true });
  const text = `throw new Error("this is the package of another user")`;
  await Deno.writeTextFile(`${folder}/node_modules/koffi/index.js`, text);
  return { [Symbol.asyncDispose]: () => Deno.remove(folder, { recursive: true }) };
}

if (Deno.env.get("HOLDFAST_SOAK")) await tableTests();

/** The table of bundlers and strategies, on live servers. */
async function tableTests(): Promise<void> {
  for (const bundler of BUNDLERS) {
    const reason = await installSkip(Object.values(bundler.packages)) ?? await runtimeSkip(BUN);
    register(`bundles of ${bundler.name}`, reason, async (places) => {
      await using project = await bundle(bundler, "uses_main.mjs", ["uses.mjs"]);
      for (const [form, { file, on }] of Object.entries(bundler.bundles)) {
        const argument = JSON.stringify({ ...places, dir: `${project.folder}/locks` });
        const { output } = await project.run([await programOf(on), file, argument]);
        checkRow(`${bundler.name}, ${form}`, output);
      }
    });
  }
  for (const bundler of NEXT_BUNDLERS) {
    const reason = await installSkip(NEXT_PACKAGES);
    register(`${NEXT} with ${bundler}`, reason, async (places) => {
      const uses = Deno.readTextFileSync(new URL("uses.mjs", TESTDATA));
      await using app = await buildNextApp(
        { "uses.mjs": uses, "app/uses/route.js": ROUTE },
        bundler,
      );
      await using running = await app.start({ PLACES: JSON.stringify(places) });
      const response = await fetch(`${running.url}/uses`);
      checkRow(`${NEXT}, ${bundler}`, await response.text());
    });
  }

  function register(
    name: string,
    reason: string | undefined,
    fn: (places: { dir: string; redis: string; zookeeper: string }) => Promise<void>,
  ): void {
    Deno.test({
      name: `all strategies work in ${name}` +
        (reason === undefined ? "" : ` [skipped: ${reason}]`),
      ignore: reason !== undefined,
      async fn() {
        await using redis = await startRedis();
        await using zookeeper = await startZooKeeper();
        const dir = await Deno.makeTempDir();
        await fn({ dir, redis: redis.url, zookeeper: zookeeper.connectString });
        await Deno.remove(dir, { recursive: true });
      },
    });
  }
}

/** Prints a row of the table, and fails if a strategy failed. */
function checkRow(name: string, output: string): void {
  const outcomes = JSON.parse(output) as Record<string, string>;
  say(`| ${[name, ...Object.values(outcomes)].join(" | ")} |`);
  assertEquals([...new Set(Object.values(outcomes))], ["ok"], `${name}: ${output}`);
}

Deno.test("docs/bundlers.md has a row for each bundle that the soak runs, in its version", () => {
  const rows = [
    ...BUNDLERS.flatMap(({ name, bundles }) =>
      Object.keys(bundles).map((form) => `${name}, ${form}`)
    ),
    ...NEXT_BUNDLERS.map((bundler) => `${NEXT}, ${bundler}`),
  ];
  const page = Deno.readTextFileSync(new URL("../../docs/bundlers.md", import.meta.url));
  const table = page.split("\n| bundler  ").at(-1)!.split("\n\n", 1)[0]!.split("\n").slice(2);
  const cells = table.map((line) => line.split("|").slice(1, -1).map((cell) => cell.trim()));
  assertEquals(cells, rows.map((row) => [row, ...Array(5).fill("ok")]));
});
