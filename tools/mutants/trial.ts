/**
 * Runs test files on mutants until one of them fails.
 *
 * @module
 */
import { writeFile } from "node:fs/promises";
import { runDeno } from "../../testing/runner/deno_child.ts";
import { type FilesOptions, runFile } from "../../testing/runner/test_files.ts";
import type { Mutant } from "./draw.ts";
import { mutated } from "./mutations.ts";
import type { Reach } from "./reach.ts";

/** How long, in ms, test files run on one mutant. */
const LIMIT_MS = 180_000;
/** A test file that runs longer than this on a mutant, in ms, fails: it may never end. */
const longestMs = (seconds: number) => 2_000 * seconds + 10_000;

/** What became of a mutant. */
export interface Outcome {
  readonly mutant: Mutant;
  /** The test file that noticed the mutation; undefined if none did. */
  readonly killer: string | undefined;
  /** Why it survived, or how it was killed. */
  readonly detail: string;
}

/** How to run test files: in copies of the project. */
export interface TrialOptions extends Pick<FilesOptions, "factor" | "signal"> {
  /** The arguments of Deno for a copy. */
  readonly argsOf: (copy: string) => readonly string[];
  readonly reach: Reach;
  /** A copy without a mutation. */
  readonly clean: string;
  /** Counts how often each test file failed without a mutation. */
  readonly unstable: Map<string, number>;
}

/** Whether the types of a mutated file are right. Leaves the copy as it was. */
export async function isTyped(
  mutant: Mutant,
  copy: string,
  { argsOf, signal }: Pick<TrialOptions, "argsOf" | "signal">,
): Promise<boolean> {
  return await withMutation(mutant, copy, async () => {
    const imports = argsOf(copy).filter((arg) => arg.startsWith("--import-map"));
    const { code } = await runDeno({
      args: ["check", "-q", ...imports, mutant.path],
      ...{ cwd: copy, signal },
    });
    return code === 0;
  });
}

/**
 * Runs the test files that reach a mutation, the nearest one first, until one fails. A failure counts if the
 * file fails once more, directly between two runs without the mutation that pass.
 *
 * @param copy Gets the mutation for that time.
 */
export async function tryMutant(
  mutant: Mutant,
  copy: string,
  options: TrialOptions,
): Promise<Outcome> {
  return await withMutation(mutant, copy, () => search(mutant, copy, options));
}

async function search(mutant: Mutant, copy: string, options: TrialOptions): Promise<Outcome> {
  const { reach, signal } = options;
  const { tests, isReached } = reach.testsOf(mutant.path, mutant.line);
  const untilMs = performance.now() + LIMIT_MS;
  let passed = 0;
  for (const test of tests) {
    const boundMs = longestMs(reach.secondsOf(test));
    const leftMs = untilMs - performance.now();
    if (leftMs <= 0 || signal.aborted) break;
    const result = await runTest(test, copy, Math.min(boundMs, leftMs), options);
    if (result === "passed") passed++;
    else if (result === "late" && leftMs < boundMs) break;
    else if (await isKilledBy(test, copy, boundMs, options)) {
      return { mutant, killer: test, detail: result };
    }
  }
  const files = `${passed} of ${tests.length} test files that ${
    isReached ? "reach" : "load"
  } it pass`;
  const doubt = isReached ? "" : ", but none is known to reach it";
  return { mutant, killer: undefined, detail: `${files}${doubt}` };
}

async function isKilledBy(
  test: string,
  copy: string,
  boundMs: number,
  options: TrialOptions,
): Promise<boolean> {
  const { clean, signal, unstable } = options;
  const passesClean = async () => {
    const isPassed = await runTest(test, clean, boundMs, options) === "passed";
    if (!isPassed && !signal.aborted) unstable.set(test, (unstable.get(test) ?? 0) + 1);
    return isPassed;
  };
  return await passesClean() && await runTest(test, copy, boundMs, options) !== "passed" &&
    await passesClean();
}

async function runTest(
  test: string,
  cwd: string,
  boundMs: number,
  { argsOf, factor, signal }: TrialOptions,
): Promise<"passed" | "failed" | "late"> {
  const bound = new AbortController();
  const timer = setTimeout(() => bound.abort("SIGTERM"), boundMs);
  const { summary } = await runFile(`${cwd}/${test}`, {
    ...{ args: argsOf(cwd), cwd, factor, filter: undefined },
    signal: AbortSignal.any([signal, bound.signal]),
  });
  clearTimeout(timer);
  if (bound.signal.aborted) return "late";
  return summary.failed > 0 ? "failed" : "passed";
}

async function withMutation<T>(
  mutant: Mutant,
  copy: string,
  work: () => Promise<T>,
): Promise<T> {
  const { path, text } = mutant;
  await writeFile(`${copy}/${path}`, mutated(text, mutant));
  try {
    return await work();
  } finally {
    await writeFile(`${copy}/${path}`, text);
  }
}
