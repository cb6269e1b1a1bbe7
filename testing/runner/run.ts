/**
 * One run of the tests: all rounds, the second look, and what it prints about them.
 *
 * @module
 */
import { type FileResult, type FilesOptions, runFile, runFiles, titleOf } from "./test_files.ts";
import { type Output, timeOf } from "./output.ts";
import { type FirstFailure, lookAgain, MOST_AT_SECOND_TRY } from "./second_look.ts";
import { type Round, useRedis } from "./server_programs.ts";
import { closingLine, skippedLine, type Summary, sumOf } from "./summary.ts";

const BAR_EVERY_MS = 1_000;

/** How to run the rounds. */
export interface RunOptions extends Omit<FilesOptions, "onOutput"> {
  readonly rounds: readonly Round[];
  /** The order of the files of a round. */
  readonly arrange: (files: readonly string[]) => string[];
  readonly seed: number;
  readonly jobs: number;
  readonly isStrict: boolean;
  /** Whether files that pass, and the texts of failures, go to the log only: one run of many. */
  readonly isBrief: boolean;
  readonly output: Output;
}

/** The results of a run. */
export interface RunResult {
  readonly seed: number;
  readonly rounds: readonly RoundResult[];
  /** Tests that failed first and passed in the second look. */
  readonly atSecondTry: readonly FirstFailure[];
}

interface RoundResult {
  readonly title: string;
  readonly timeMs: number;
  readonly files: readonly FileResult[];
}

/** Runs the rounds one after the other. Stops early when the signal aborts. */
export async function runRounds(options: RunOptions): Promise<RunResult> {
  const { rounds, seed, isStrict, output, signal } = options;
  const atSecondTry: FirstFailure[] = [];
  const results: RoundResult[] = [];
  for (const round of rounds) {
    if (round.redis !== undefined) useRedis(round.redis);
    if (rounds.length > 1) output.line(`\nRunning ${round.title}`);
    const startMs = performance.now();
    let files = await runRound(round, options);
    if (!isStrict && !signal.aborted) {
      const second = await lookAgain(files, options, (again) => {
        output.line(`again  ${lineOf(again)}`);
        output.detail(again.output);
      });
      files = second.results;
      atSecondTry.push(...second.passed);
    }
    results.push({ title: round.title, timeMs: performance.now() - startMs, files });
    if (signal.aborted) break;
  }
  return { seed, rounds: results, atSecondTry };
}

async function runRound({ files }: Round, options: RunOptions): Promise<readonly FileResult[]> {
  const { arrange, jobs, isBrief, output, signal } = options;
  const startMs = performance.now();
  if (files.length === 1 && !isBrief) {
    // A developer watches the output of a single file.
    const result = await runFile(files[0]!, { ...options, onOutput: (part) => output.part(part) });
    output.log(result.output);
    output.line(`${result.summary.failed > 0 ? "FAILED" : "ok    "} ${lineOf(result)}`);
    return signal.aborted ? [] : [result];
  }
  let done = 0;
  const showBar = () => output.bar(done, files.length, performance.now() - startMs);
  const timer = setInterval(showBar, BAR_EVERY_MS);
  const results = await runFiles(arrange(files), jobs, options, (result) => {
    done++;
    printFile(result, isBrief, output);
    showBar();
  });
  clearInterval(timer);
  output.clearBar();
  return results;
}

function printFile(result: FileResult, isBrief: boolean, output: Output): void {
  const { file, summary } = result;
  const line = `${summary.failed > 0 ? "FAILED" : "ok    "} ${lineOf(result)}`;
  if ((isBrief && summary.failed === 0) || ranNothing(result)) output.log(line);
  else output.line(line);
  if (!isBrief) {
    for (const { test, text } of summary.failures) {
      output.line(`\n${titleOf(file, test)}\n${text}\n`);
    }
  }
  output.detail(`time factor ${result.factor}\n${result.output}\n`);
}

/** Whether the file has tests for the soak only, or for servers that are not here. */
function ranNothing({ summary: { passed, failed } }: FileResult): boolean {
  return passed + failed === 0;
}

function lineOf({ file, seconds, summary: { passed, failed, skipped } }: FileResult): string {
  const parts = [`${passed + failed} ${passed + failed === 1 ? "test" : "tests"}`];
  if (failed > 0) parts.push(`${failed} failed`);
  if (skipped > 0) parts.push(`${skipped} skipped`);
  return `${file}: ${parts.join(", ")}, ${seconds.toFixed(1)} s`;
}

/** The counts of a run. */
export function countsOf({ rounds }: RunResult): Summary {
  return sumOf(rounds.flatMap(({ files }) => files.map(({ summary }) => summary)));
}

/** The failures that are left, with their files. */
export function failuresOf({ rounds }: RunResult): FirstFailure[] {
  return rounds.flatMap(({ files }) =>
    files.flatMap(({ file, summary }) => summary.failures.map((each) => ({ ...each, file })))
  );
}

/** How long a run took. */
export function timesOf({ rounds }: RunResult): string {
  return rounds.map(({ timeMs }) => timeOf(timeMs)).join(" + ");
}

/**
 * Prints the closing lines of a run.
 *
 * @param changed The test files in which no test may need a second try.
 * @returns Whether the run is green.
 */
export function reportRun(
  run: RunResult,
  changed: ReadonlySet<string>,
  { hasServers, range, output }: {
    readonly hasServers: boolean;
    /** The range of the time factor. */
    readonly range: string;
    readonly output: Output;
  },
): boolean {
  const { rounds, seed, atSecondTry } = run;
  const total = countsOf(run);
  const skipped = [...new Set(total.skippedNames)];
  for (const name of skipped) output.log(`skipped: ${name}`);
  if (skipped.length > 0) output.line(skippedLine(skipped));
  const silent = rounds.flatMap(({ files }) => files).filter(ranNothing).length;
  if (silent > 0) output.line(`files without a test in this run, named in the log: ${silent}`);
  for (const { file, test } of failuresOf(run)) output.line(`failed: ${titleOf(file, test)}`);
  for (const { file, test, text } of atSecondTry) {
    output.line(`passed at the second try: ${titleOf(file, test)} (seed ${seed})\n${text}\n`);
  }
  const hasRun = total.passed + total.failed > 0;
  if (!hasRun) output.problem("No test ran: choose other files or another --filter");
  const ofChanged = atSecondTry.filter(({ file }) => changed.has(file));
  if (atSecondTry.length > MOST_AT_SECOND_TRY) {
    output.line(`This run fails: more than ${MOST_AT_SECOND_TRY} tests needed a second try`);
  } else if (ofChanged.length > 0) {
    const files = [...new Set(ofChanged.map(({ file }) => file))].join(", ");
    output.line(`This run fails: tests in changed files needed a second try: ${files}`);
  }
  output.line(`Time: ${timesOf(run)}; time factor: ${range}; seed: ${seed}`);
  output.line(`Log: ${output.logPath}`);
  if (hasServers) {
    for (const { title, files } of rounds) {
      output.line(`${title}: ${closingLine(sumOf(files.map(({ summary }) => summary)))}`);
    }
  }
  if (atSecondTry.length > 0) output.line(`${atSecondTry.length} at the second try`);
  output.line(closingLine(total));
  return hasRun && total.failed === 0 && ofChanged.length === 0 &&
    atSecondTry.length <= MOST_AT_SECOND_TRY;
}
