/**
 * Runs test files, some at a time, each in a process of its own. In one process for all, Deno loads
 * their modules one after the other, which takes twice as long; and a file that crashes ends the others.
 *
 * @module
 */
import type { Buffer } from "node:buffer";
import { relative } from "node:path";
import process from "node:process";
import { TIME_FACTOR_VARIABLE } from "../time.ts";
import { type ChildOptions, runDeno } from "./deno_child.ts";
import { timeOf } from "./output.ts";
import { readSummary, type Summary } from "./summary.ts";
import type { TimeFactor } from "./time_factor.ts";

/** How many files run at a time. Tests mostly wait: eight keep two cores busy. */
export const JOBS = 8;

/** How long a file may take, times the time factor: a file that never ends would hold the run forever. */
const FILE_BOUND_MS = (process.env["HOLDFAST_SOAK"] ? 120 : 30) * 60_000;

/** How the tests of a file ended. */
export interface FileResult {
  /** The path of the file. */
  readonly file: string;
  readonly seconds: number;
  /** The time factor that its tests got. */
  readonly factor: number;
  /** The counts. One failure of the whole file if it failed without counts or failed tests. */
  readonly summary: Summary;
  /** All that `deno test` printed. */
  readonly output: string;
}

/** How to run test files. */
export interface FilesOptions extends Pick<ChildOptions, "args" | "cwd" | "signal"> {
  /** The only tests to run, by their names: a text or `/REGEX/`. */
  readonly filter: string | undefined;
  /** How late things happen on this machine; measured again between files. */
  readonly factor: TimeFactor;
  /** Gets each part of the output of `deno test` at once. */
  readonly onOutput?: ((part: Buffer) => Promise<void>) | undefined;
  /** After how many ms, times the factor, a file is ended and has failed. Half an hour by default, two hours in a soak. */
  readonly boundMs?: number | undefined;
}

/**
 * Runs test files in this order, `jobs` at a time.
 *
 * @param onResult Gets the result of each file when it has ended; not after an interruption.
 */
export async function runFiles(
  files: readonly string[],
  jobs: number,
  options: FilesOptions,
  onResult: (result: FileResult) => void,
): Promise<FileResult[]> {
  const results: FileResult[] = [];
  const queue = [...files];
  const worker = async () => {
    for (let file = queue.shift(); file !== undefined; file = queue.shift()) {
      if (options.signal.aborted) return;
      const result = await runFile(file, options);
      if (options.signal.aborted) return;
      results.push(result);
      onResult(result);
    }
  };
  await Promise.all(Array.from({ length: jobs }, worker));
  return results;
}

/** Runs a test file. */
export async function runFile(
  file: string,
  { args, cwd, signal, filter, factor, onOutput, boundMs = FILE_BOUND_MS }: FilesOptions,
): Promise<FileResult> {
  await factor.update();
  const startMs = performance.now();
  const { value } = factor;
  const filterArgs = filter === undefined ? [] : [`--filter=${filter}`];
  const late = new AbortController();
  const timer = setTimeout(() => late.abort("SIGTERM"), boundMs * value);
  const { code, output, errors } = await runDeno({
    args: ["test", "--no-check", ...args, ...filterArgs, file],
    env: { [TIME_FACTOR_VARIABLE]: `${value}` },
    ...{ cwd, onOutput },
    signal: AbortSignal.any([signal, late.signal]),
  }).finally(() => clearTimeout(timer));
  const failure = late.signal.aborted
    ? `did not end in ${timeOf(boundMs * value)}`
    : `exit code ${code}`;
  return {
    file: relative(cwd, file).startsWith("..") ? file : relative(cwd, file),
    seconds: (performance.now() - startMs) / 1_000,
    factor: value,
    summary: summaryOf(code, failure, output, errors),
    output: `${output}${errors}`.trimEnd(),
  };
}

function summaryOf(code: number, failure: string, output: string, errors: string): Summary {
  const summary = readSummary(output);
  if (summary !== undefined && (code === 0 || summary.failures.length > 0)) return summary;
  const text = `${failure}\n${output}${errors}`.trimEnd();
  return {
    ...{ passed: 0, skipped: 0, skippedNames: [], ...summary },
    failed: Math.max(summary?.failed ?? 0, 1),
    failures: [{ test: undefined, text }],
  };
}

/** Names a failed test, or a file that failed as a whole. */
export function titleOf(file: string, test: string | undefined): string {
  return test === undefined ? `${file} (the file as a whole)` : `${file} => ${test}`;
}
