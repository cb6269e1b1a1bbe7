/**
 * The package as npm installs it: each entry loads on each runtime, as an ES module and by `require()`,
 * and works there as far as that needs no server.
 */
import { assert, assertEquals } from "@std/assert";
import { installedProject, linkedProject, PACKAGE } from "../../testing/npm/project.ts";
import {
  type NpmRuntime,
  OLDEST_RUNTIMES,
  programOf,
  RUNTIMES,
  runtimeSkip,
} from "../../testing/npm/runtimes.ts";
import { filesIn } from "../../tools/architecture/imports.ts";

const ROOT = new URL("../../", import.meta.url);
const RUNS: readonly NpmRuntime[] = Deno.env.get("HOLDFAST_SOAK")
  ? [...OLDEST_RUNTIMES, ...RUNTIMES]
  : RUNTIMES;
const PARTS = [
  ...["memory", "loss", "fetch", "busyFetch", "lambda", "frameworks", "fences", "redis"],
  "zookeeperWithoutClient",
];
/** Node 22 has no `using`. */
const HAS_FILE_USING = filesIn("file/").some((path) => /^\s*using /m.test(read(path)));

function read(path: string): string {
  return Deno.readTextFileSync(new URL(path, ROOT));
}

/** Whether the entry `./file` cannot load yet. */
function lacksFile({ name }: NpmRuntime): boolean {
  return HAS_FILE_USING && name.startsWith("Node 22");
}

/** The exports that the sources of each entry have. */
async function sourceExports(runtime: NpmRuntime): Promise<Record<string, string[]>> {
  const { exports } = JSON.parse(read("deno.json")) as { exports: Record<string, string> };
  const found: Record<string, string[]> = {};
  for (const [entry, path] of Object.entries(exports)) {
    if (entry === "./file" && lacksFile(runtime)) continue;
    const names = Object.keys(await import(new URL(path, ROOT).href));
    found[PACKAGE + entry.slice(1)] = names.toSorted();
  }
  return found;
}

Deno.test("npm install of the package installs one package, which has no dependencies", async () => {
  await using project = await installedProject();
  const { success, output } = await project.run(["npm", "ls", "--all", "--parseable"]);
  assert(success, output);
  const paths = output.split("\n").filter((line) => line.includes("node_modules"));
  assertEquals(paths.map((path) => path.split("node_modules/")[1]), [PACKAGE]);
});

for (const runtime of RUNS) {
  const skip = await runtimeSkip(runtime);
  const entries = lacksFile(runtime) ? "each entry but ./file" : "each entry";
  const reason = skip === undefined ? "" : ` [skipped: ${skip}]`;
  Deno.test({
    name: `${entries} of the npm package loads and works on ${runtime.name}${reason}`,
    ignore: skip !== undefined,
    async fn() {
      await using project = await linkedProject();
      const program = await programOf(runtime);
      const expected = await sourceExports(runtime);
      for (const script of ["load.mjs", "load.cjs"]) {
        const path = await project.copy(script);
        const { success, output } = await project.run([program, path, ...Object.keys(expected)]);
        assert(success, `${script}: ${output}`);
        const [json = "", ...warnings] = output.split("\n");
        assertEquals(JSON.parse(json), expected, `${script}: ${warnings.join("\n")}`);
      }
      const { output } = await project.run([program, await project.copy("use.mjs")]);
      assertEquals(output.trim().split("\n"), [...PARTS.map((name) => `ok ${name}`), "end"]);
    },
  });
}
