/**
 * Figures that tests print, to be quoted.
 *
 * @module
 */

/** Prints a figure, or the seed of a run. */
export function say(text: string): void {
  // deno-lint-ignore no-console -- a figure is to be seen
  console.log(text);
}

/** The middle one; rounded to tenths. */
export function median(values: readonly number[]): number {
  const sorted = [...values].sort((a, b) => a - b);
  return Math.round(sorted[Math.floor(sorted.length / 2)]! * 10) / 10;
}
