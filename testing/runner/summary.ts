/**
 * Reads the counts and the failures from the output of `deno test` about one file, and writes the
 * closing line of a run.
 *
 * @module
 */

/** A test that failed, or a file that failed as a whole. */
export interface Failure {
  /** The name of the test; undefined if the file failed outside of its tests. */
  readonly test: string | undefined;
  /** The output of the test, and its errors. */
  readonly text: string;
}

/** The counts of a file or a run. Steps do not count. */
export interface Summary {
  readonly passed: number;
  readonly failed: number;
  readonly skipped: number;
  /** The names of the skipped tests and steps, in the order of the run. */
  readonly skippedNames: readonly string[];
  /** Fewer than `failed` if an error outside of the tests cancelled some. */
  readonly failures: readonly Failure[];
}

// deno-lint-ignore no-control-regex -- colours begin with the escape character
const COLOURS = /\x1b\[[\d;]*m/g;
const SUMMARY_LINE = /^(?:ok|FAILED) \| (\d+) passed\b.*? \| (\d+) failed\b(.*)$/;
const IGNORED_LINE = /^\s*(.+) \.\.\. ignored(?: \(.*\))?$/;
/** The line before the first test, or the last one of a test; those of its steps are indented. */
const BOUNDARY =
  /^(?:running \d+ tests? from .+|(?! ).+ \.\.\. (?:ok|FAILED|ignored|cancelled)(?: \(.*\))?)$/;
const ERRORS_LINE = " ERRORS ";
const FAILURES_LINE = " FAILURES ";
/** Begins the error of a test or step: `a test ... a step => ./tests/a_test.ts:3:6`. */
const ERROR_OF_TEST = /^(.+) => .+:\d+:\d+$/;

/** Removes the colours of a terminal. */
export function withoutColours(text: string): string {
  return text.replaceAll(COLOURS, "");
}

/** Reads the output about a file; undefined if it has no counts, for example after a crash. */
export function readSummary(output: string): Summary | undefined {
  const lines = withoutColours(output).replaceAll("\r\n", "\n").split("\n");
  const [, passed, failed, rest = ""] = lines
    .map((line) => SUMMARY_LINE.exec(line))
    .findLast((match) => match !== null) ?? [];
  if (passed === undefined) return undefined;
  return {
    passed: Number(passed),
    failed: Number(failed),
    skipped: Number(/ \| (\d+) ignored\b/.exec(rest)?.[1] ?? 0),
    skippedNames: lines.flatMap((line) => IGNORED_LINE.exec(line)?.[1] ?? []),
    failures: failuresIn(lines),
  };
}

function failuresIn(lines: readonly string[]): Failure[] {
  const errorsAt = lines.lastIndexOf(ERRORS_LINE);
  const listAt = lines.lastIndexOf(FAILURES_LINE);
  if (errorsAt < 0 || listAt < errorsAt) return [];
  // The list of failures repeats the line above each error, so no line of an error is taken for one.
  const headers = new Set(lines.slice(listAt + 1).filter((line) => line !== ""));
  const texts = new Map<string | undefined, string[]>();
  let text: string[] = [];
  for (const line of lines.slice(errorsAt + 1, listAt)) {
    if (headers.has(line)) {
      const test = ERROR_OF_TEST.exec(line)?.[1]?.split(" ... ")[0];
      text = texts.get(test) ?? printedBy(test, lines.slice(0, errorsAt));
      texts.set(test, text);
    }
    text.push(line);
  }
  return [...texts].map(([test, parts]) => ({ test, text: parts.join("\n").trim() }));
}

/** The output of a test and its steps: the lines after the result of the test before it. */
function printedBy(test: string | undefined, lines: readonly string[]): string[] {
  if (test === undefined) return [];
  const end = lines.findIndex((line) => line.startsWith(`${test} ... FAILED`));
  const before = lines.slice(0, Math.max(end, 0)).findLastIndex((line) => BOUNDARY.test(line));
  return end < 0 ? [] : [...lines.slice(before + 1, end), ""];
}

/** The counts of several files together. */
export function sumOf(summaries: readonly Summary[]): Summary {
  const sum = (count: (summary: Summary) => number) =>
    summaries.reduce((total, summary) => total + count(summary), 0);
  return {
    passed: sum(({ passed }) => passed),
    failed: sum(({ failed }) => failed),
    skipped: sum(({ skipped }) => skipped),
    skippedNames: summaries.flatMap(({ skippedNames }) => skippedNames),
    failures: summaries.flatMap(({ failures }) => failures),
  };
}

/** The last line of a run. */
export function closingLine({ passed, failed, skipped }: Summary): string {
  return `${passed} passed, ${failed} failed${skipped > 0 ? `, ${skipped} skipped` : ""}`;
}

/** One line about skipped tests: how many for each reason, which is in brackets behind the name. */
export function skippedLine(names: readonly string[]): string {
  const counts = new Map<string, number>();
  for (const name of names) {
    const reason = /[[(](?:skipped: )?([^[\]()]*(?:\([^()]*\)[^[\]()]*)*)[\])]$/.exec(name)?.[1] ??
      "no reason given";
    counts.set(reason, (counts.get(reason) ?? 0) + 1);
  }
  const parts = [...counts].map(([reason, count]) => `${reason}: ${count}`);
  return `skipped: ${names.length} (${parts.join("; ")})`;
}
