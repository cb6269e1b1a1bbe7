/**
 * `deno task mutants`: puts small mutations into copies of the published code, and tells which of them no
 * test notices. It has nothing to do with the planted bugs of `testing/faults/mutants.ts`, which test the
 * checker of recorded histories.
 *
 * @module
 */
// deno-lint-ignore-file no-console -- this is a command
import { statSync } from "node:fs";
import { relative, resolve } from "node:path";
import process from "node:process";
import { fileURLToPath, pathToFileURL } from "node:url";
import { parseArgs } from "node:util";
import { NPM_FOLDER, NPM_FOLDER_VARIABLE } from "../../testing/npm/cache.ts";
import { findNeededServers } from "../../testing/runner/needed_servers.ts";
import { testFilesIn } from "../../testing/runner/select.ts";
import { importMapArgs } from "../import_map.ts";
import { commitOf, Copies } from "./copies.ts";
import { seedsOf } from "./draw.ts";
import { folderOnOtherRuntimes } from "./reach.ts";
import { reportOf, runMutants } from "./run.ts";

const ROOT = fileURLToPath(new URL("../../", import.meta.url)).replace(/\/$/, "");
const DEFAULT_FOLDERS = ["core", "redis", "zookeeper", "file"];
const FOLDERS = [
  ...DEFAULT_FOLDERS,
  "memory",
  "http",
  "lock_service",
  "fencing",
  "recipes",
  "adapters",
  "redlock",
  "fake",
];
const DEFAULT_COUNT = 20;
/** These check the documentation and the tools, or run the code of several folders on other runtimes. */
const BESIDE_THE_CODE = /^tests\/(?:npm|docs|tools)\//;
const EXIT_CODES = { SIGINT: 130, SIGTERM: 143 } as const;

const USAGE = `Usage: deno task mutants [--seed N] [--count N] [--only PATH,PATH…] [FILES…]

Draws small mutations of the published TypeScript: a changed condition, operator or constant, or a dropped
statement. Tries each one in a copy of the work tree: runs the test files that reach its line, the nearest
one first, 3 minutes at most, until one fails. Prints what became of each, then the survivors: each shows
a missing test, or code that is not needed.

A failure counts if the test file fails again, directly between two runs without the mutation that pass.
Mutations that break the types are drawn again. Which lines a test file reaches is measured first: all
test files run once for that. The result stays in .mutants/ until the work tree changes. A child process
that is killed has reached nothing.

  FILES             only these test files or folders; all by default, but for those of the documentation,
                    the tools, and the npm package as a whole
  --seed N          draws the mutants of an earlier run; by default, those of the last commit
  --count N         how many mutants; ${DEFAULT_COUNT} by default
  --only PATH,…     mutates only these folders or files; by default ${DEFAULT_FOLDERS.join(", ")}
  --help            prints this text`;

interface Options {
  readonly seed: number | undefined;
  readonly count: number;
  readonly sources: readonly string[];
  /** Test files and folders, by their paths from the root; none for the default. */
  readonly tests: readonly string[];
}

/** Reads the command line; `null` for `--help`. */
function readOptions(args: string[]): Options | null {
  const { values, positionals } = parseArgs({
    args,
    allowPositionals: true,
    options: {
      seed: { type: "string" },
      count: { type: "string", default: String(DEFAULT_COUNT) },
      only: { type: "string", default: DEFAULT_FOLDERS.join() },
      help: { type: "boolean", default: false },
    },
  });
  if (values.help) return null;
  return {
    seed: values.seed === undefined ? undefined : numberIn("--seed", values.seed, 0),
    count: numberIn("--count", values.count, 1),
    sources: values.only.split(",").map(sourceAt),
    tests: positionals,
  };
}

function numberIn(option: string, text: string, least: number): number {
  const number = Number(text);
  if (text !== "" && Number.isSafeInteger(number) && number >= least) return number;
  throw new RangeError(`Cannot use "${text}" for ${option}: write a whole number from ${least}`);
}

function sourceAt(text: string): string {
  const path = relative(ROOT, resolve(ROOT, text));
  const isThere = statSync(`${ROOT}/${path}`, { throwIfNoEntry: false }) !== undefined;
  if (isThere && FOLDERS.includes(path.split("/")[0]!)) return path;
  throw new RangeError(`Cannot mutate "${text}": choose folders or files in ${FOLDERS.join(", ")}`);
}

async function testFiles(paths: readonly string[], sources: readonly string[]): Promise<string[]> {
  const chosen = paths.length > 0 ? paths : ["tests"];
  const files = (await Promise.all(chosen.map((path) => testFilesIn(resolve(ROOT, path))))).flat();
  const tests = [...new Set(files.map((file) => relative(ROOT, file)))];
  if (paths.length > 0) return tests;
  const folders = new Set(sources.map((path) => path.split("/")[0]));
  return tests.filter((test) =>
    !BESIDE_THE_CODE.test(test) || folders.has(folderOnOtherRuntimes(test))
  );
}

async function main(): Promise<number> {
  let options: Options | null;
  try {
    options = readOptions(process.argv.slice(2));
  } catch (error) {
    console.error(`${(error as Error).message}\n\n${USAGE}`);
    return 2;
  }
  if (options === null) {
    console.log(USAGE);
    return 0;
  }
  const controller = new AbortController();
  for (const name of Object.keys(EXIT_CODES) as (keyof typeof EXIT_CODES)[]) {
    process.on(name, () => controller.abort(name));
  }
  const { signal } = controller;
  const [first, ...others] = seedsOf(await commitOf(ROOT));
  const { count, sources, seed = first! } = options;
  const more = options.seed === undefined
    ? `; other seeds of this commit: ${others.join(", ")}`
    : "";
  console.log(`Seed: ${seed}${more}`);
  const tests = await testFiles(options.tests, sources);
  process.env[NPM_FOLDER_VARIABLE] = NPM_FOLDER; // The copies use the packages that are installed.
  await findNeededServers(tests, [], console.log);
  await using copies = await Copies.of(ROOT);
  const result = await runMutants({
    ...{ root: ROOT, copies, sources, tests, seed, count, signal, print: console.log },
    argsFor: async (copy) => ["-A", ...await importMapArgs(pathToFileURL(`${copy}/`))],
  });
  console.log(reportOf(result).join("\n"));
  return signal.aborted ? EXIT_CODES[signal.reason as keyof typeof EXIT_CODES] : 0;
}

if (import.meta.main) process.exit(await main());
