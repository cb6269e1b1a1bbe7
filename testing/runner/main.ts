/**
 * `deno task test`: finds the servers that the tests need, runs the tests and prints the counts.
 *
 * @module
 */

// deno-lint-ignore-file no-console -- this is a command

import process from "node:process";
import { fileURLToPath } from "node:url";
import { importMapArgs } from "../../tools/import_map.ts";
import { preparePrograms } from "../interop/peer_programs.ts";
import { refuseInstall } from "../servers/find_apt.ts";
import { findServer, type ServerKind, sourceVariable } from "../servers/find.ts";
import { TIME_FACTOR_VARIABLE } from "../time.ts";
import { readArguments, type Selection, USAGE } from "./command_line.ts";
import { changedFiles } from "./changed.ts";
import { runDeno } from "./deno_child.ts";
import { coverageArgs, printCoverage, removeCoverage } from "./coverage.ts";
import { shuffled, slowFirst } from "./order.ts";
import { Output } from "./output.ts";
import { reportRuns, runLine } from "./repeat.ts";
import { reportRun, type RunResult, runRounds } from "./run.ts";
import { strategyOf } from "./select.ts";
import { roundsOf, type ServerProgram } from "./server_programs.ts";
import { startStress } from "./stress.ts";
import { TimeFactor } from "./time_factor.ts";

/** How long all tests take. */
const WHOLE_RUN = "this takes about 5 minutes on 2 cores";
const SERVER_KINDS: readonly ServerKind[] = ["redis", "zookeeper"];
const EXIT_CODES = { SIGINT: 130, SIGTERM: 143 } as const;
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
  const signal = listenForInterruption();
  try {
    const isGreen = await run(selection, signal);
    return signal.aborted ? exitCodeOf(signal) : isGreen ? 0 : 1;
  } catch (error) {
    console.error((error as Error).message);
    return 1;
  }
}

/** Makes all runs and reports them; resolves with whether they are green. */
async function run(selection: Selection, signal: AbortSignal): Promise<boolean> {
  const { files, filter, servers, repeat, seed, stress, changedSince, isCovered } = selection;
  if (files.length === 0) {
    throw new Error("No test file is selected: name other files or strategies");
  }
  const changed = changedSince === undefined
    ? new Set<string>()
    : await changedFiles(changedSince, ROOT);
  if (isCovered) await removeCoverage(ROOT);
  const output = new Output(selection.isVerbose);
  const factor = new TimeFactor();
  const count = repeat ?? 1;
  const runs: RunResult[] = [];
  let imports: readonly string[] | undefined;
  for (let i = 0; i < count && !signal.aborted; i++) {
    await using _stress = stress === undefined ? null : await startStress(stress);
    if (imports === undefined || stress === "cold") {
      imports = await prepare(selection, output, signal);
      if (imports === undefined) return false;
    }
    await factor.measure();
    const origin = factor.isFixed ? `, from ${TIME_FACTOR_VARIABLE}` : "";
    output.line(`Time factor: ${factor.value}${origin}`);
    const args = ["-A", ...imports, ...coverageArgs(isCovered)];
    const result = await runRounds({
      rounds: roundsOf(files, servers),
      seed: seed + i,
      arrange: (files) => (repeat === undefined ? slowFirst : shuffled)(files, seed + i),
      jobs: selection.jobs,
      isStrict: selection.isStrict,
      isBrief: repeat !== undefined,
      ...{ args, cwd: ROOT, filter, factor, output, signal },
    });
    runs.push(result);
    if (repeat !== undefined) output.line(runLine(result, i + 1, count));
  }
  if (runs.length === 0) return false;
  if (isCovered && !signal.aborted) await printCoverage(ROOT);
  if (repeat !== undefined) return reportRuns(runs, factor.range, output);
  const hasServers = servers.length > 0;
  return reportRun(runs[0]!, changed, { hasServers, range: factor.range, output });
}

/**
 * Finds the servers and checks the types.
 *
 * @returns The arguments that `deno test` needs on this machine; undefined if the types are wrong or a
 *   signal has interrupted this.
 */
async function prepare(
  { files, servers, isWhole, repeat }: Selection,
  output: Output,
  signal: AbortSignal,
): Promise<string[] | undefined> {
  const interrupted = new Promise<undefined>((resolve) =>
    signal.addEventListener("abort", () => resolve(undefined))
  );
  const imports = await Promise.race([findAll(files, servers, output), interrupted]);
  if (imports === undefined) return undefined;
  const length = isWhole && repeat === undefined ? `: ${WHOLE_RUN}` : "";
  output.line(`Running ${files.length} test ${files.length === 1 ? "file" : "files"}${length}`);
  const check = { args: ["check", "-q", ...imports, ...files], cwd: ROOT, signal };
  const { code, output: printed, errors } = await runDeno(check);
  if (signal.aborted) return undefined;
  if (code === 0) return imports;
  output.line(`${printed}${errors}`.trimEnd());
  output.line("The type check failed, so no test ran");
  output.line(`Log: ${output.logPath}\n0 passed, 1 failed`);
  return undefined;
}

/** Finds the servers; resolves with the arguments that `deno test` needs on this machine. */
async function findAll(
  files: readonly string[],
  programs: readonly ServerProgram[],
  output: Output,
): Promise<string[]> {
  const problems: string[] = [];
  for (const { path, version } of programs) output.line(`Redis: ${version}, ${path}`);
  for (const kind of SERVER_KINDS) {
    if (kind === "redis" && programs.length > 0) continue;
    if (!files.some((file) => strategyOf(file) === kind)) continue;
    try {
      const { source, line } = await findServer(kind);
      process.env[sourceVariable(kind)] = JSON.stringify(source);
      output.line(line);
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
      output.line(`For comparison: ${line}`);
    }
  }
  const imports = await importMapArgs();
  const standIns = "does not answer, so small stand-ins replace @std/assert and @std/async";
  output.line(`JSR: ${imports.length === 0 ? "answers" : standIns}`);
  return imports;
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
