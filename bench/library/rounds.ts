/**
 * Runs jobs in interleaved rounds, so that a disturbance of the machine affects all of them.
 *
 * @module
 */
import type { FigureBook, Place } from "./figures.ts";
import type { Progress } from "./progress.ts";

/** One contender at one workload. */
export interface Job {
  readonly contender: string;
  readonly at: Place;
  /** Measures one round. */
  run(): Promise<Readonly<Record<string, number>>>;
}

/** How many rounds to run. */
export interface RoundOptions {
  /** Rounds whose figures are dropped: services run code that is compiled already. */
  readonly warmUp: number;
  readonly rounds: number;
}

/** Runs all jobs in each round, and notes their figures. Each round begins with another job. */
export async function runRounds(
  jobs: readonly Job[],
  { warmUp, rounds }: RoundOptions,
  book: FigureBook,
  progress: Progress,
): Promise<void> {
  for (let round = 0; round < warmUp + rounds; round++) {
    for (const job of rotated(jobs, round)) {
      progress.step(labelOf(job, round < warmUp));
      const values = await job.run();
      if (round >= warmUp) book.add(job.contender, job.at, values);
    }
  }
}

/** The jobs in the order of a round: garbage of one job is a burden of the next. */
export function rotated<T>(jobs: readonly T[], round: number): T[] {
  const first = jobs.length === 0 ? 0 : round % jobs.length;
  return [...jobs.slice(first), ...jobs.slice(0, first)];
}

/** How many steps {@linkcode runRounds} will report. */
export function stepsOf(jobs: number, { warmUp, rounds }: RoundOptions): number {
  return jobs * (warmUp + rounds);
}

function labelOf({ contender, at }: Job, isWarmUp: boolean): string {
  const place = Object.entries(at).map(([key, value]) => `${key} ${value}`).join(", ");
  return `${contender}, ${place}${isWarmUp ? " (warm-up)" : ""}`;
}
