/**
 * Chooses the worker to kill.
 *
 * @module
 */
import type { Event } from "./history.ts";

/** A worker that holds the lock. */
export interface Victim {
  readonly worker: number;
  readonly round: number;
}

/**
 * Returns a function that takes all events of a run and returns, once, the holder at the moment when
 * `finishedRounds` rounds are finished. If these are fewer than the rounds of one worker, all other
 * workers have rounds left at that moment.
 */
export function watchForVictim(finishedRounds: number): (event: Event) => Victim | null {
  const holding = new Map<number, number>();
  let finished = 0;
  let isFound = false;
  return ({ event, worker, round }) => {
    if (event === "granted") holding.set(worker, round);
    if (event === "finished") {
      finished++;
      holding.delete(worker);
    }
    const [holder] = holding;
    if (isFound || holder === undefined || finished !== finishedRounds) return null;
    isFound = true;
    return { worker: holder[0], round: holder[1] };
  };
}
