/**
 * Reads the counts from the output of `deno test`, and writes the closing line of a run.
 *
 * @module
 */

/** The counts of a run. */
export interface Summary {
  readonly passed: number;
  readonly failed: number;
  readonly skipped: number;
  /** The names of the skipped tests and steps, in the order of the run. */
  readonly skippedNames: readonly string[];
  /** The same of the failed ones. */
  readonly failedNames: readonly string[];
}

// deno-lint-ignore no-control-regex -- colours begin with the escape character
const COLOURS = /\x1b\[[\d;]*m/g;
const SUMMARY_LINE = /^(?:ok|FAILED) \| (\d+) passed\b.*? \| (\d+) failed\b(.*)$/gm;
// When files run in parallel, each line begins with its file.
const IGNORED_LINE = /^\s*(?:\S+\.[jt]s => )?(.+) \.\.\. ignored(?: \(.*\))?$/gm;
const FAILED_LINE = /^\s*(.+) \.\.\. FAILED(?: \(.*\))?$/gm;

/** Removes the colours of a terminal. */
export function withoutColours(text: string): string {
  return text.replaceAll(COLOURS, "");
}

/** Reads the last summary line; undefined if there is none, for example after a type error. */
export function readSummary(output: string): Summary | undefined {
  const text = withoutColours(output).replaceAll("\r\n", "\n");
  const last = [...text.matchAll(SUMMARY_LINE)].at(-1);
  if (last === undefined) return undefined;
  const [, passed, failed, rest = ""] = last;
  return {
    passed: Number(passed),
    failed: Number(failed),
    skipped: Number(/ \| (\d+) ignored\b/.exec(rest)?.[1] ?? 0),
    skippedNames: namesIn(text, IGNORED_LINE),
    failedNames: namesIn(text, FAILED_LINE),
  };
}

function namesIn(text: string, line: RegExp): string[] {
  return [...text.matchAll(line)].map(([, name = ""]) => name);
}

/** The counts of several runs together. */
export function sumOf(summaries: readonly Summary[]): Summary {
  const sum = (count: (summary: Summary) => number) =>
    summaries.reduce((total, summary) => total + count(summary), 0);
  return {
    passed: sum(({ passed }) => passed),
    failed: sum(({ failed }) => failed),
    skipped: sum(({ skipped }) => skipped),
    skippedNames: summaries.flatMap(({ skippedNames }) => skippedNames),
    failedNames: summaries.flatMap(({ failedNames }) => failedNames),
  };
}

/** The last line of a run. */
export function closingLine({ passed, failed, skipped }: Summary): string {
  return `${passed} passed, ${failed} failed${skipped > 0 ? `, ${skipped} skipped` : ""}`;
}
