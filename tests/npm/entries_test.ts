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

const ROOT = new URL("../../", import.meta.url);
const RUNS: readonly NpmRuntime[] = Deno.env.get("HOLDFAST_SOAK")
  ? [...OLDEST_RUNTIMES, ...RUNTIMES]
  : RUNTIMES;
const PARTS = [
  ...["memory", "loss", "fetch", "busyFetch", "lambda", "frameworks", "fences", "redis"],
  "zookeeperWithoutClient",
];

function read(path: string): string {
  return Deno.readTextFileSync(new URL(path, ROOT));
}

/** Those for Nest and OpenTelemetry import packages, and the command runs: they have test files of their own. */
const ELSEWHERE = ["./http/nestjs", "./otel", "./command"];

/** The exports that the sources of each other entry have. */
async function sourceExports(): Promise<Record<string, string[]>> {
  const { exports } = JSON.parse(read("deno.json")) as { exports: Record<string, string> };
  const found: Record<string, string[]> = {};
  for (const [entry, path] of Object.entries(exports)) {
    if (ELSEWHERE.includes(entry)) continue;
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
  const reason = skip === undefined ? "" : ` [skipped: ${skip}]`;
  Deno.test({
    name: `each entry of the npm package loads and works on ${runtime.name}${reason}`,
    ignore: skip !== undefined,
    async fn() {
      await using project = await linkedProject();
      const program = await programOf(runtime);
      const expected = await sourceExports();
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
