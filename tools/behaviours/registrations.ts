/**
 * Reads which behaviours the conformance suite registers, for which strategy or client, and on which
 * runtimes: from the test files themselves, which are loaded, but not run.
 *
 * @module
 */
import { readdirSync } from "node:fs";
import { rm, writeFile } from "node:fs/promises";
import process from "node:process";
import { fileURLToPath } from "node:url";
import { makeTempDirectory } from "../../testing/runtime/temporary_files.ts";
import { runCommand } from "../../testing/servers/command.ts";
import { LONG_BOUND_MS } from "../../testing/time.ts";
import { MARK } from "./collector.ts";
import { FILE_MARK } from "./load.ts";

const ROOT = fileURLToPath(new URL("../../", import.meta.url));
const SUITES = "tests/conformance/";
const PACKAGED = "tests/npm/";
const PACKAGED_SUITES = /_conformance_test\.ts$|^oldest_deno_test\.ts$/;
/** The runtime of the files in {@linkcode SUITES}. */
const DENO = "Deno";
/** A program is named so that no server is looked for. */
const NO_SEARCH = JSON.stringify({ own: { kind: "local", command: ["none"] } });

/** A suite on the runtimes on which it runs. */
export interface SuiteListing {
  /** The strategy, with its client. */
  readonly name: string;
  /** The behaviours by their runtimes. */
  readonly runtimes: ReadonlyMap<string, readonly string[]>;
}

/** The suites of both runs, in the same order. */
export interface Listings {
  readonly usual: readonly SuiteListing[];
  readonly soak: readonly SuiteListing[];
}

/** Lists the suites of the default run and of the soak. */
export async function listSuites(): Promise<Listings> {
  const folder = await makeTempDirectory();
  try {
    const map = `${folder}/map.json`;
    await writeFile(map, JSON.stringify({ imports: await imports() }));
    const [usual, soak] = [await namesByFile(map, false), await namesByFile(map, true)];
    // Other runtimes always run the short form.
    return { usual: suitesOf(usual, usual), soak: suitesOf(soak, usual) };
  } finally {
    await rm(folder, { recursive: true });
  }
}

type NamesByFile = ReadonlyMap<string, readonly string[]>;

function suitesOf(names: NamesByFile, short: NamesByFile): SuiteListing[] {
  const suites = [...names].filter(([file]) => file.startsWith(SUITES)).map(([file, tests]) => {
    const runtimes = new Map([[DENO, tests.map(behaviourOf)]]);
    for (const test of [...names].filter(([file]) => file.startsWith(PACKAGED)).flat(2)) {
      const [, suite, runtime] = /the suite (\w+)(?: passes)? on (.*)$/.exec(test) ?? [];
      if (runtime === undefined || file !== `${SUITES}${suite}.ts`) continue;
      runtimes.set(runtime, short.get(file)!.map(behaviourOf));
    }
    return { name: tests[0]!.split(": ", 1)[0]!, runtimes };
  });
  return suites.sort((a, b) => a.name < b.name ? -1 : 1);
}

/** The name of a test without its strategy. */
function behaviourOf(test: string): string {
  return test.slice(test.indexOf(": ") + 2);
}

/** The names of all tests that the files register. */
async function namesByFile(map: string, isSoak: boolean): Promise<NamesByFile> {
  const files = [
    ...readdirSync(ROOT + SUITES).filter((name) => name.endsWith("_test.ts")).map((name) =>
      SUITES + name
    ),
    ...readdirSync(ROOT + PACKAGED).filter((name) => PACKAGED_SUITES.test(name)).map((name) =>
      PACKAGED + name
    ),
  ];
  const command = [process.execPath, "run", "-A", "--no-check", "--no-lock", "-q"];
  command.push(`--import-map=${map}`, `${ROOT}tools/behaviours/load.ts`, ...files.sort());
  const env = {
    HOLDFAST_SOAK: isSoak ? "1" : "",
    HOLDFAST_REDIS_SOURCE: NO_SEARCH,
    HOLDFAST_ZOOKEEPER_SOURCE: NO_SEARCH,
  };
  const { success, output } = await runCommand(command, LONG_BOUND_MS, { cwd: ROOT, env });
  if (!success) throw new Error(`Cannot load the suites: ${output}`);
  const names = new Map<string, string[]>();
  for (const line of output.split("\n")) {
    if (line.startsWith(FILE_MARK)) names.set(line.slice(FILE_MARK.length), []);
    if (line.startsWith(MARK)) [...names.values()].at(-1)!.push(line.slice(MARK.length));
  }
  return names;
}

/** Nothing from JSR is needed to list tests. */
async function imports(): Promise<Record<string, string>> {
  const { imports } = JSON.parse(await Deno.readTextFile(`${ROOT}deno.json`)) as {
    imports: Record<string, string>;
  };
  const own = {
    "@std/assert": "testing/assert/assert.ts",
    "@std/async": "testing/assert/async.ts",
    "@db/redis": "testing/assert/deno_redis.ts",
    [`file://${ROOT}testing/runtime/tests.ts`]: "tools/behaviours/collector.ts",
  };
  const replaced = Object.entries(own).map(([name, path]) => [name, `file://${ROOT}${path}`]);
  return { ...imports, ...Object.fromEntries(replaced) };
}
