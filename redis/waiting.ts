/**
 * How a waiter learns that it may ask again: by polling, for now. The wait queue goes here.
 *
 * @module
 */

/** Longest pause in ms between two asks. */
const POLL_MS = 60;

/**
 * How long to pause before the next ask. Jitter keeps waiters from asking in step; a holder whose
 * time is nearly up is asked about right after it.
 *
 * @param leftMs What is left to the holder in ms; negative if its key has no TTL.
 * @param random A number from 0 to 1.
 */
export function pollDelayMs(leftMs: number, random: number): number {
  const delayMs = POLL_MS * (0.4 + 0.6 * random);
  return leftMs < 0 ? delayMs : Math.min(delayMs, leftMs + 1);
}
