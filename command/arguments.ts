/**
 * Reads arguments: durations, and the errors of bad ones.
 *
 * @module
 */

/** The arguments are wrong. Its message ends up beside the advice to read `--help`. */
export class UsageError extends Error {
  /** The name of this class. */
  override readonly name = "UsageError";
}

const UNITS: Readonly<Record<string, number>> = { ms: 1, s: 1_000, m: 60_000, h: 3_600_000 };

/** Reads a duration such as `500ms`, `30s`, `2m` or `1h`, in ms. */
export function readDuration(option: string, text: string): number {
  const [, digits, unit] = /^(\d+(?:\.\d+)?)(ms|s|m|h)$/.exec(text) ?? [];
  if (unit === undefined) {
    throw new UsageError(`${option} must be a duration such as 500ms, 30s or 2m`);
  }
  return Math.round(Number(digits) * UNITS[unit]!);
}

/** Reads a whole number in a range. */
export function readNumber(option: string, text: string, min: number, max: number): number {
  const number = Number(text);
  if (/^\d+$/.test(text) && number >= min && number <= max) return number;
  throw new UsageError(`${option} must be a whole number from ${min} to ${max}`);
}
