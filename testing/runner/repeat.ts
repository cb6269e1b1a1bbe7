/**
 * The report about several runs of the tests: which tests failed how often.
 *
 * @module
 */
import { titleOf } from "./test_files.ts";
import type { Output } from "./output.ts";
import { countsOf, failuresOf, type RunResult, timesOf } from "./run.ts";
import { closingLine, sumOf } from "./summary.ts";

/** A test that failed. */
interface Failed {
  readonly seeds: Set<number>;
  /** Its failures, by their texts without numbers: ports and times differ from run to run. */
  readonly texts: Map<string, string>;
}

/**
 * Prints which tests failed in how many runs, and the counts of all runs together.
 *
 * @param range The range of the time factor.
 * @returns Whether all runs are green.
 */
export function reportRuns(runs: readonly RunResult[], range: string, output: Output): boolean {
  const tests = new Map<string, Failed>();
  for (const run of runs) {
    for (const { file, test, text } of failuresOf(run)) {
      const title = titleOf(file, test);
      const failed = tests.get(title) ?? { seeds: new Set(), texts: new Map() };
      failed.seeds.add(run.seed);
      const kind = text.replaceAll(/\d+/g, "0");
      if (!failed.texts.has(kind)) failed.texts.set(kind, text);
      tests.set(title, failed);
    }
  }
  output.line("");
  for (const [title, { seeds, texts }] of [...tests].sort(byCount)) {
    output.line(`failed ${seeds.size} of ${runs.length} times: ${title} (${seedsOf(seeds)})`);
    for (const text of texts.values()) output.line(`${text}\n`);
  }
  for (const [i, run] of runs.entries()) output.line(runLine(run, i + 1, runs.length));
  const total = sumOf(runs.map(countsOf));
  if (total.passed + total.failed === 0) output.problem("No test ran");
  output.line(`Time factor: ${range}`);
  output.line(`Log: ${output.logPath}`);
  output.line(closingLine(total));
  return total.failed === 0 && total.passed > 0;
}

/** One line about a run. */
export function runLine(run: RunResult, number: number, count: number): string {
  const counts = closingLine(countsOf(run));
  return `Run ${number} of ${count}: ${counts}; ${timesOf(run)}; seed ${run.seed}`;
}

function byCount([, one]: [string, Failed], [, other]: [string, Failed]): number {
  return other.seeds.size - one.seeds.size;
}

function seedsOf(seeds: ReadonlySet<number>): string {
  return `${seeds.size === 1 ? "seed" : "seeds"} ${[...seeds].join(", ")}`;
}
