/**
 * Runs the tests: finds the servers that they need, runs them, counts.
 *
 * @module
 */

// deno-lint-ignore-file no-console -- this is a command

import { resolve } from "node:path";
import process from "node:process";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { importMapArgs, removeImportMaps } from "../../tools/import_map.ts";
import { preparePrograms } from "../interop/programs.ts";
import { runDenoTest } from "./child.ts";
import { isStrategy, selectFiles, STRATEGIES, strategyOf, testFilesIn } from "./select.ts";
import { closingLine, readSummary } from "./summary.ts";
import { findServer, type ServerKind, sourceVariable } from "../servers/find.ts";

const USAGE = `Usage: deno task test [--only STRATEGIES] [--filter TEXT] [FILES…]

  --only memory,file,redis,zookeeper  only these strategies' tests, and those of no strategy
  --filter TEXT                       only tests whose name contains the text, or matches /REGEX/
  --help                              prints this
  FILES                               only these test files or folders`;

const SERVER_KINDS: readonly ServerKind[] = ["redis", "zookeeper"];
const EXIT_CODES = { SIGINT: 130, SIGTERM: 143 } as const;
const ROOT = fileURLToPath(new URL("../../", import.meta.url));

/** What to run, as the arguments say. */
interface Selection {
  readonly files: readonly string[];
  readonly filter: string | undefined;
}

if (import.meta.main) process.exit(await main());

async function main(): Promise<number> {
  let selection: Selection | undefined;
  try {
    selection = await readArguments();
  } catch (error) {
    console.error(`${(error as Error).message}\n\n${USAGE}`);
    return 2;
  }
  if (selection === undefined) {
    console.log(USAGE);
    return 0;
  }
  try {
    return await run(selection);
  } catch (error) {
    console.error((error as Error).message);
    return 1;
  } finally {
    await removeImportMaps();
  }
}

/** Undefined if only help is asked for; rejects with what is wrong. */
async function readArguments(): Promise<Selection | undefined> {
  const { values, positionals } = parseArgs({
    allowPositionals: true,
    options: { only: { type: "string" }, filter: { type: "string" }, help: { type: "boolean" } },
  });
  if (values.help) return undefined;
  const wanted = values.only?.split(",") ?? STRATEGIES;
  const unknown = wanted.find((name) => !isStrategy(name));
  if (unknown !== undefined) {
    throw new Error(`Unknown strategy "${unknown}": name some of ${STRATEGIES.join(",")}`);
  }
  const paths = positionals.length > 0 ? positionals : ["tests"];
  const files = await Promise.all(paths.map(findFiles));
  return { files: selectFiles(files.flat(), wanted.filter(isStrategy)), filter: values.filter };
}

async function findFiles(path: string): Promise<string[]> {
  try {
    return await testFilesIn(resolve(ROOT, path));
  } catch {
    throw new Error(`No such test file or folder: ${path}`);
  }
}

async function run({ files, filter }: Selection): Promise<number> {
  if (files.length === 0) throw new Error("No test file is selected: choose others");
  const signal = listenForInterruption();
  const interrupted = new Promise<undefined>((resolve) =>
    signal.addEventListener("abort", () => resolve(undefined))
  );
  const imports = await Promise.race([prepare(files), interrupted]);
  if (imports === undefined) return exitCodeOf(signal);
  const filterArgs = filter === undefined ? [] : [`--filter=${filter}`];
  const args = ["-A", ...imports, ...filterArgs, ...files];
  const { code, output } = await runDenoTest({ args, cwd: ROOT, signal });
  const counted = report(output, code);
  return signal.aborted ? exitCodeOf(signal) : counted;
}

/** Finds what the tests need; resolves with the arguments that `deno test` needs here. */
async function prepare(files: readonly string[]): Promise<string[]> {
  const problems: string[] = [];
  for (const kind of SERVER_KINDS) {
    if (!files.some((file) => strategyOf(file) === kind)) continue;
    try {
      const { source, line } = await findServer(kind);
      process.env[sourceVariable(kind)] = JSON.stringify(source);
      console.log(line);
    } catch (error) {
      problems.push((error as Error).message);
    }
  }
  if (problems.length > 0) {
    throw new Error(`${problems.join("\n")}\nOr choose among the tests with --only`);
  }
  // What is missing of these skips tests; it does not stop the run.
  if (files.some((file) => /\binterop\/zookeeper/.test(file))) {
    for (const { line } of Object.values(await preparePrograms())) {
      console.log(`Beside ours: ${line}`);
    }
  }
  const imports = await importMapArgs();
  const standIns = "does not answer: small stand-ins for @std/assert and @std/async";
  console.log(`JSR: ${imports.length === 0 ? "answers" : standIns}`);
  return imports;
}

/** Prints the closing lines; resolves with the exit code. */
function report(output: string, code: number): number {
  const summary = readSummary(output) ??
    { passed: 0, failed: 1, skipped: 0, skippedNames: [] };
  for (const name of summary.skippedNames) console.log(`skipped: ${name}`);
  const hasRun = summary.passed + summary.failed > 0;
  if (!hasRun) console.error("No test ran: choose others");
  else if (code !== 0 && summary.failed === 0) console.error(`deno test ended with ${code}`);
  console.log(closingLine(summary));
  return code !== 0 || summary.failed > 0 || !hasRun ? 1 : 0;
}

/** Aborts at Ctrl-C or SIGTERM; the reason is the signal's name. */
function listenForInterruption(): AbortSignal {
  const controller = new AbortController();
  for (const name of Object.keys(EXIT_CODES) as (keyof typeof EXIT_CODES)[]) {
    process.on(name, () => controller.abort(name));
  }
  return controller.signal;
}

function exitCodeOf({ reason }: AbortSignal): number {
  return EXIT_CODES[reason as keyof typeof EXIT_CODES];
}
