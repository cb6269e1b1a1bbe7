/**
 * Runs failed tests once more, alone, when nothing else runs. A test that passes then does not fail the
 * run but is named: its failure may show a defect that appears only sometimes.
 *
 * @module
 */
import { type FileResult, type FilesOptions, runFile } from "./test_files.ts";
import type { Failure, Summary } from "./summary.ts";

/** More tests than this that pass only at the second try fail the run. */
export const MOST_AT_SECOND_TRY = 3;
/** With more failures than this, something is broken: none gets a second look. */
export const MOST_LOOKED_AT = 20;
/** Another test of the file may have caused a leak. */
const LEAK = /\bleaks? detected\b/i;

/** The results of a run after the second look. */
export interface SecondLook {
  readonly results: readonly FileResult[];
  /** The first failures of the tests that passed then. */
  readonly passed: readonly FirstFailure[];
}

/** A failure, and the path of the file. */
export interface FirstFailure extends Failure {
  readonly file: string;
}

/** Looks at the failures of a run. */
export async function lookAgain(
  results: readonly FileResult[],
  options: FilesOptions,
  onLook: (again: FileResult) => void,
): Promise<SecondLook> {
  const failed = results.reduce((count, { summary }) => count + summary.failures.length, 0);
  if (failed > MOST_LOOKED_AT) return { results, passed: [] };
  const passed: FirstFailure[] = [];
  const updated: FileResult[] = [];
  for (const result of results) {
    if (result.summary.failed === 0 || options.signal.aborted) {
      updated.push(result);
      continue;
    }
    const { file, summary } = result;
    const look = async (filter = options.filter) => {
      const again = await runFile(file, { ...options, filter });
      onLook(again);
      return again.summary;
    };
    const second = isAboutFile(summary)
      ? await look()
      : await lookAtTests(summary, (test) => look(`/^${escaped(test)}$/`));
    const recovered = summary.failures.filter(({ test }) => passes(test, second));
    passed.push(...recovered.map((failure) => ({ ...failure, file })));
    updated.push({ ...result, summary: second });
  }
  return { results: updated, passed };
}

/** Whether something besides single tests failed, or may have. */
function isAboutFile({ failed, failures }: Summary): boolean {
  return failures.length !== failed ||
    failures.some(({ test, text }) => test === undefined || LEAK.test(text));
}

/** Whether a test passes at the second look; of a file as a whole, whether all of its tests do. */
function passes(test: string | undefined, { failed, failures }: Summary): boolean {
  if (test === undefined) return failed === 0;
  return !failures.some((failure) => failure.test === undefined || failure.test === test);
}

async function lookAtTests(
  summary: Summary,
  look: (test: string) => Promise<Summary>,
): Promise<Summary> {
  let { passed, failed } = summary;
  const failures: Failure[] = [];
  for (const failure of summary.failures) {
    const again = await look(failure.test!);
    if (again.passed > 0 && again.failed === 0) {
      passed++;
      failed--;
    } else {
      failures.push(failure);
    }
  }
  return { ...summary, passed, failed, failures };
}

function escaped(text: string): string {
  return text.replaceAll(/[.*+?^${}()|[\]\\/]/g, "\\$&");
}
