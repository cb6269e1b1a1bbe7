/**
 * Prints and computes the figures that tests report.
 *
 * @module
 */

/** Prints a figure, or the seed of a run. */
export function say(text: string): void {
  // deno-lint-ignore no-console -- the output of a test run shows the figures
  console.log(text);
}

/** The median, rounded to tenths. */
export function median(values: readonly number[]): number {
  const sorted = [...values].sort((a, b) => a - b);
  return Math.round(sorted[Math.floor(sorted.length / 2)]! * 10) / 10;
}
