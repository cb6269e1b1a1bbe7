/**
 * `deno task test`: finds the servers that the tests need, runs the tests and prints the counts.
 *
 * @module
 */

// deno-lint-ignore-file no-console -- this is a command

import process from "node:process";
import { fileURLToPath } from "node:url";
import { importMapArgs, JSR_VARIABLE } from "../../tools/import_map.ts";
import { refuseInstall } from "../servers/find_apt.ts";
import { TIME_FACTOR_VARIABLE } from "../time.ts";
import { readArguments, type Selection, USAGE } from "./command_line.ts";
import { changedFiles } from "./changed.ts";
import { runDeno } from "./deno_child.ts";
import { coverageArgs, printCoverage, removeCoverage } from "./coverage.ts";
import { shuffled, slowFirst } from "./order.ts";
import { Output } from "./output.ts";
import { reportRuns, runLine } from "./repeat.ts";
import { reportRun, type RunResult, runRounds } from "./run.ts";
import { findNeededServers } from "./needed_servers.ts";
import { roundsOf } from "./server_programs.ts";
import { startStress } from "./stress.ts";
import { TimeFactor } from "./time_factor.ts";

/** How long all tests take. */
const WHOLE_RUN = "this takes about 5 minutes on 2 cores";
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
  { files, servers, isWhole, repeat, stress }: Selection,
  output: Output,
  signal: AbortSignal,
): Promise<string[] | undefined> {
  const interrupted = new Promise<undefined>((resolve) =>
    signal.addEventListener("abort", () => resolve(undefined))
  );
  const findAll = async () => {
    for (const { path, version } of servers) output.line(`Redis: ${version}, ${path}`);
    const given = servers.length > 0 ? ["redis"] as const : [];
    await findNeededServers(files, given, (line) => output.line(line));
    // With new caches, JSR may be out of reach that had answered from the old ones.
    if (stress === "cold") delete process.env[JSR_VARIABLE];
    const args = await importMapArgs();
    process.env[JSR_VARIABLE] = args.length === 0 ? "1" : "0";
    const standIns = "does not answer, so small stand-ins replace @std/assert and @std/async";
    output.line(`JSR: ${args.length === 0 ? "answers" : standIns}`);
    return args;
  };
  const imports = await Promise.race([findAll(), interrupted]);
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
