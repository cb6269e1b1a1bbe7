/**
 * Medians, quantiles and ratios of measured values.
 *
 * @module
 */

/** The value below which this part of the values lies; interpolates between neighbours. NaN for none. */
export function quantile(values: readonly number[], part: number): number {
  if (values.length === 0) return NaN;
  const sorted = [...values].sort((a, b) => a - b);
  const place = (sorted.length - 1) * part;
  const below = sorted[Math.floor(place)]!;
  return below + (sorted[Math.ceil(place)]! - below) * (place % 1);
}

/** The median. */
export function median(values: readonly number[]): number {
  return quantile(values, 0.5);
}

/** The median and the quartiles around it. */
export interface Quartiles {
  readonly low: number;
  readonly median: number;
  readonly high: number;
}

/** The quartiles of values. */
export function quartiles(values: readonly number[]): Quartiles {
  return {
    low: quantile(values, 0.25),
    median: median(values),
    high: quantile(values, 0.75),
  };
}

/** The ratio of two figures in each round: a disturbance of a round affects both. */
export function ratios(over: readonly number[], under: readonly number[]): number[] {
  return over.slice(0, under.length).map((value, round) => value / under[round]!);
}

/** The mean. */
export function mean(values: readonly number[]): number {
  return values.reduce((sum, value) => sum + value, 0) / values.length;
}
