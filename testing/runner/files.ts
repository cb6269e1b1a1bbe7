/**
 * Runs test files, some at a time, each in a process of its own. In one process for all, Deno loads
 * their modules one after the other, which takes twice as long; and a file that crashes ends the others.
 *
 * @module
 */
import type { Buffer } from "node:buffer";
import process from "node:process";
import { type ChildOptions, runDeno } from "./child.ts";
import type { Progress } from "./progress.ts";
import { readSummary, type Summary } from "./summary.ts";

/** Tests mostly wait: running five files at a time keeps two cores busy. */
const AT_ONCE = 5;
/** `deno test` puts the file's name before each line when it may run several files at a time. */
const NAMES_IN_LINES = { args: ["--parallel"], env: { DENO_JOBS: "2" } } as const;

/** The counts of a file that ended before it printed any. */
const NO_COUNTS: Summary = {
  passed: 0,
  failed: 1,
  skipped: 0,
  skippedNames: [],
  failedNames: [],
};

/** How the tests of a file ended. */
export interface FileResult {
  readonly file: string;
  readonly code: number;
  /** The counts. One failure if the file ended before it printed any. */
  readonly summary: Summary;
}

/** The files to run, and how. */
export interface FilesOptions extends Omit<ChildOptions, "env" | "onOutput"> {
  readonly files: readonly string[];
  readonly progress: Progress;
}

/**
 * Checks the types of test files. Their errors are printed.
 *
 * @returns Whether there is none.
 */
export async function checkTypes(
  files: readonly string[],
  { args, cwd, signal }: ChildOptions,
): Promise<boolean> {
  const { code } = await runDeno({ args: ["check", "-q", ...args, ...files], cwd, signal });
  return code === 0;
}

/** Runs test files. Prints the output of each when it has ended; of a single one, at once. */
export async function runFiles(
  { files, args, cwd, signal, progress }: FilesOptions,
): Promise<FileResult[]> {
  const results: FileResult[] = [];
  const queue = [...files];
  const print = async (output: string | Buffer) => {
    progress.add(output.toString());
    await new Promise<void>((resolve) => process.stdout.write(output, () => resolve()));
  };
  const onOutput = files.length === 1 ? print : undefined;
  const worker = async () => {
    // From the end: the last files in the order of their names take the longest.
    for (let file = queue.pop(); file !== undefined && !signal.aborted; file = queue.pop()) {
      const test = ["test", "--no-check", ...NAMES_IN_LINES.args, ...args, file];
      const options = { args: test, cwd, signal, env: NAMES_IN_LINES.env, onOutput };
      const { code, output } = await runDeno(options);
      if (onOutput === undefined) await print(output);
      const none = { ...NO_COUNTS, failedNames: [`${file} (exit code ${code})`] };
      results.push({ file, code, summary: readSummary(output) ?? none });
    }
  };
  await Promise.all(Array.from({ length: AT_ONCE }, worker));
  return results;
}
