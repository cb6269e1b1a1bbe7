/** The sources on the oldest Deno that is supported, in the soak only: each entry, and the suites. */
import { assert, assertEquals } from "@std/assert";
import { fileURLToPath } from "node:url";
import { countLine } from "../../testing/conformance/counts.ts";
import { readReports, strategyOf } from "../../testing/npm/reports.ts";
import { OLDEST_DENO, programOf, runtimeSkip } from "../../testing/npm/runtimes.ts";
import { redisForSuite, zooKeeperForSuite } from "../../testing/npm/suite_servers.ts";
import { LISTS_ONLY, registerTest } from "../../testing/runtime/tests.ts";
import { say } from "../../testing/processes/figures.ts";
import { runCommand } from "../../testing/servers/command.ts";
import { sourceVariable } from "../../testing/servers/find.ts";
import { userImports } from "../../tools/import_map.ts";
import { scaled } from "../../testing/time.ts";

const ROOT = fileURLToPath(new URL("../../", import.meta.url));
const BOUND_MS = scaled(600_000);
const SUITES = {
  "memory_test": undefined,
  "file_test": undefined,
  "redis_ioredis_test": redisForSuite,
  "redis_node_redis_test": redisForSuite,
  "zookeeper_test": zooKeeperForSuite,
};
const isSoak = Boolean(Deno.env.get("HOLDFAST_SOAK"));
const skip = isSoak && !LISTS_ONLY ? await runtimeSkip(OLDEST_DENO) : undefined;

function test(name: string, fn: () => Promise<void>): void {
  if (!isSoak) return;
  const reason = skip === undefined ? "" : ` [skipped: ${skip}]`;
  registerTest(`${name} on ${OLDEST_DENO.name}${reason}`, fn, { isSkipped: skip !== undefined });
}

/**
 * Runs a script in the oldest Deno, without a type check: its TypeScript is older, too. Tests are run as on
 * Node: the sanitizers of Deno 2.8 also count a timer of its own sockets.
 */
async function run(script: string, env: Record<string, string> = {}): Promise<string> {
  const map = await Deno.makeTempFile({ suffix: ".json" });
  const assertions = {
    "@std/assert": "testing/assert/assert.ts",
    "@std/async": "testing/assert/async.ts",
  };
  const replaced = {
    ...assertions,
    [hrefOf("testing/runtime/tests.ts")]: "testing/npm/runtime/tests.ts",
  };
  const own = Object.entries(replaced).map(([name, path]) => [name, hrefOf(path)]);
  const imports = { ...await userImports(), ...Object.fromEntries(own) };
  await Deno.writeTextFile(map, JSON.stringify({ imports }));
  const options = ["-A", "--no-check", "--no-lock", `--import-map=${map}`];
  const command = [await programOf(OLDEST_DENO), "run", ...options, script];
  const variables = { NO_COLOR: "1", HOLDFAST_SOAK: "", ...env };
  const { success, output } = await runCommand(command, BOUND_MS, { cwd: ROOT, env: variables });
  await Deno.remove(map);
  assert(success, output);
  return output;
}

function hrefOf(path: string): string {
  return new URL(path, `file://${ROOT}`).href;
}

test("each entry loads", async () => {
  const { exports } = JSON.parse(Deno.readTextFileSync(`${ROOT}deno.json`)) as {
    exports: Record<string, string>;
  };
  const urls = Object.values(exports).map(hrefOf);
  const script = await Deno.makeTempFile({ suffix: ".mjs" });
  await Deno.writeTextFile(
    script,
    `for (const url of ${
      JSON.stringify(urls)
    }) console.log(Object.keys(await import(url)).length);`,
  );
  const counts = (await run(script)).trim().split("\n").map(Number);
  await Deno.remove(script);
  assertEquals(counts.length, urls.length);
  assert(counts.every((count) => count > 0), String(counts));
});

for (const [suite, startServer] of Object.entries(SUITES)) {
  test(`the suite ${suite} passes`, async () => {
    await using server = await startServer?.() ?? null;
    const env = server === null
      ? {}
      : { [sourceVariable(server.kind)]: JSON.stringify({ shared: server.address }) };
    const reports = readReports(await run(`tests/conformance/${suite}.ts`, env));
    const failed = reports.filter(({ error }) => error !== null);
    const counts = { passed: reports.length - failed.length, of: reports.length };
    say(countLine(strategyOf(reports), OLDEST_DENO.name, counts));
    assertEquals(failed, []);
    assert(reports.length >= 60, `only ${reports.length} behaviours`);
  });
}
