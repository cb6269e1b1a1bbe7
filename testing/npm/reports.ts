/**
 * The output of bundled tests.
 *
 * @module
 */

/** The result of one test. */
export interface TestReport {
  readonly name: string;
  /** `null` if it passed. */
  readonly error: string | null;
}

/** The name of the last line, which stands for no test. */
export const END = "end of the tests";

/**
 * Reads the results among the other lines of an output.
 *
 * @throws {Error} If not all tests have run.
 */
export function readReports(output: string): TestReport[] {
  const reports = output.split("\n")
    .filter((line) => line.startsWith('{"name":'))
    .map((line) => JSON.parse(line) as TestReport);
  if (reports.pop()?.name !== END) {
    throw new Error(`The tests ended early: ${output.slice(-2_000)}`);
  }
  return reports;
}

/** The strategy and the client of a suite: with them the names of all its behaviours begin. */
export function strategyOf([first]: readonly TestReport[]): string {
  return first?.name.split(": ", 1)[0] ?? "";
}
