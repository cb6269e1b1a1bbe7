/**
 * `deno task test`: finds the servers that the tests need, runs the tests and prints the counts.
 *
 * @module
 */

// deno-lint-ignore-file no-console -- this is a command

import process from "node:process";
import { fileURLToPath } from "node:url";
import { importMapArgs } from "../../tools/import_map.ts";
import { coverageArgs, printCoverage, removeCoverage } from "./coverage.ts";
import { preparePrograms } from "../interop/programs.ts";
import { readArguments, type Selection, USAGE } from "./arguments.ts";
import { checkTypes, type FileResult, runFiles } from "./files.ts";
import { strategyOf } from "./select.ts";
import { Progress } from "./progress.ts";
import { roundsOf, type ServerProgram, useRedis } from "./servers.ts";
import { closingLine, type Summary, sumOf } from "./summary.ts";
import { refuseInstall } from "../servers/find_apt.ts";
import { findServer, type ServerKind, sourceVariable } from "../servers/find.ts";

/** How long all tests take. */
const WHOLE_RUN = "this takes about 9 minutes on 2 cores";
const SERVER_KINDS: readonly ServerKind[] = ["redis", "zookeeper"];
const EXIT_CODES = { SIGINT: 130, SIGTERM: 143 } as const;
const PROGRESS_EVERY_MS = 60_000;
const ROOT = fileURLToPath(new URL("../../", import.meta.url));

if (import.meta.main) process.exit(await main());

async function main(): Promise<number> {
  let selection: Selection | undefined;
  try {
    selection = await readArguments(process.argv.slice(2), ROOT);
  } catch (error) {
    console.error(`${(error as Error).message}\n\n${USAGE}`);
    return 2;
  }
  if (selection === undefined) {
    console.log(USAGE);
    return 0;
  }
  if (selection.isInstallRefused) refuseInstall();
  try {
    return await run(selection);
  } catch (error) {
    console.error((error as Error).message);
    return 1;
  }
}

async function run({ files, filter, servers, isWhole, isCovered }: Selection): Promise<number> {
  if (files.length === 0) {
    throw new Error("No test file is selected: name other files or strategies");
  }
  const signal = listenForInterruption();
  const interrupted = new Promise<undefined>((resolve) =>
    signal.addEventListener("abort", () => resolve(undefined))
  );
  const imports = await Promise.race([prepare(files, servers), interrupted]);
  if (imports === undefined) return exitCodeOf(signal);
  const filterArgs = filter === undefined ? [] : [`--filter=${filter}`];
  if (isCovered) await removeCoverage(ROOT);
  console.log(`Running ${files.length} test files${isWhole ? `: ${WHOLE_RUN}` : ""}`);
  if (!await checkTypes(files, { args: imports, cwd: ROOT, signal })) {
    if (signal.aborted) return exitCodeOf(signal);
    console.log("The types are wrong, so no test ran\n0 passed, 1 failed");
    return 1;
  }
  const results: RoundResult[] = [];
  for (const round of roundsOf(files, servers)) {
    if (round.redis !== undefined) useRedis(round.redis);
    if (servers.length > 1) console.log(`\nRunning ${round.title}`);
    const args = ["-A", ...imports, ...filterArgs, ...coverageArgs(isCovered)];
    const progress = new Progress(round.files.length);
    const timer = setInterval(() => console.log(progress.line), PROGRESS_EVERY_MS);
    const { files } = round;
    const done = await runFiles({ files, args, cwd: ROOT, signal, progress });
    clearInterval(timer);
    results.push({ title: round.title, time: progress.time, files: done });
    if (signal.aborted) break;
  }
  if (isCovered && !signal.aborted) await printCoverage(ROOT);
  const counted = report(results, servers.length > 0);
  return signal.aborted ? exitCodeOf(signal) : counted;
}

/** Finds the servers; resolves with the arguments that `deno test` needs on this machine. */
async function prepare(
  files: readonly string[],
  programs: readonly ServerProgram[],
): Promise<string[]> {
  const problems: string[] = [];
  for (const { path, version } of programs) console.log(`Redis: ${version}, ${path}`);
  for (const kind of SERVER_KINDS) {
    if (kind === "redis" && programs.length > 0) continue;
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
    throw new Error(
      `${problems.join("\n")}\nOr run the tests that need no such server, with --only`,
    );
  }
  // A missing program only skips its tests: it does not stop the run.
  if (files.some((file) => /\binterop\/zookeeper/.test(file))) {
    for (const { line } of Object.values(await preparePrograms())) {
      console.log(`For comparison: ${line}`);
    }
  }
  const imports = await importMapArgs();
  const standIns = "does not answer, so small stand-ins replace @std/assert and @std/async";
  console.log(`JSR: ${imports.length === 0 ? "answers" : standIns}`);
  return imports;
}

interface RoundResult {
  readonly title: string;
  readonly time: string;
  readonly files: readonly FileResult[];
}

function countsOf({ files }: RoundResult): Summary {
  return sumOf(files.map(({ summary }) => summary));
}

/** Prints the closing lines; returns the exit code. */
function report(results: readonly RoundResult[], hasServers: boolean): number {
  const total = sumOf(results.map(countsOf));
  for (const name of new Set(total.skippedNames)) console.log(`skipped: ${name}`);
  for (const name of total.failedNames) console.log(`failed: ${name}`);
  const hasRun = total.passed + total.failed > 0;
  if (!hasRun) console.error("No test ran: choose other files or another --filter");
  const files = results.flatMap((result) => result.files);
  const unexplained = files.filter(({ code, summary }) => code !== 0 && summary.failed === 0);
  for (const { file, code } of unexplained) console.error(`${file} exited with ${code}`);
  console.log(`Time: ${results.map(({ time }) => time).join(" + ")}`);
  if (hasServers) {
    for (const result of results) {
      console.log(`${result.title}: ${closingLine(countsOf(result))}`);
    }
  }
  console.log(closingLine(total));
  const isFailed = files.some(({ code, summary }) => code !== 0 || summary.failed > 0);
  return isFailed || !hasRun ? 1 : 0;
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
