/**
 * Times jobs in turns, so that disturbances of the machine affect all of them, and compares them.
 *
 * @module
 */

/** The median. */
export function median(values: readonly number[]): number {
  const sorted = [...values].sort((a, b) => a - b);
  return sorted[Math.floor(sorted.length / 2)]!;
}

/** Runs a job of `steps` steps; resolves with the time per step in µs. */
export async function timed(
  steps: number,
  job: (steps: number) => Promise<void>,
): Promise<number> {
  const startMs = performance.now();
  await job(steps);
  return ((performance.now() - startMs) * 1_000) / steps;
}

/** Runs jobs in turns for `rounds` rounds. Each resolves with its own figure; the result has a row per round. */
export async function inTurns(
  rounds: number,
  jobs: readonly (() => Promise<number>)[],
): Promise<number[][]> {
  const rows: number[][] = [];
  for (let i = 0; i < rounds; i++) {
    const row: number[] = [];
    for (const job of jobs) row.push(await job());
    rows.push(row);
  }
  return rows;
}

/** The median of a column in µs, and the median and range of the ratio of the first column to it. */
export function summary(rows: readonly (readonly number[])[], column: number) {
  const ratios = rows.map((row) => row[0]! / row[column]!);
  return {
    us: median(rows.map((row) => row[column]!)),
    ratio: median(ratios),
    least: Math.min(...ratios),
    most: Math.max(...ratios),
  };
}

/** A ratio as text, and whether it is within its limit. */
export function judged(ratio: number, limit: number): { text: string; isWithin: boolean } {
  const isWithin = ratio <= limit;
  const verdict = isWithin ? `limit ${limit}` : `OVER its limit of ${limit}`;
  return { text: `ratio ${ratio.toFixed(2)}, ${verdict}`, isWithin };
}
