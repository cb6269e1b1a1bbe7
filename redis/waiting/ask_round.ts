/**
 * Makes all waiters of a lock ask, spread over a bounded time.
 *
 * @module
 */
import type { Clock } from "../../core/time/clock.ts";
import type { Waiter } from "./waiter.ts";

/** How long in ms it takes until the last waiter asks. */
export const SPREAD_MS = 1_000;
/** In how many steps they ask. */
const STEPS = 20;
/** How many waiters ask in one step, at least. */
const MIN_STEP = 64;

/**
 * The rounds in which all waiters of one lock ask, in the order of their tickets. One round at a time: a
 * round lasts until its last asks should be answered.
 */
export class AskRound {
  readonly #clock: Clock;
  #cancelTimer: (() => void) | null = null;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /**
   * Starts a round, unless one is under way.
   *
   * @param waiters All waiters of the lock. One that leaves later is skipped.
   * @param ask Makes one waiter ask.
   */
  start(waiters: Iterable<Waiter>, ask: (waiter: Waiter) => void): void {
    if (this.#cancelTimer !== null) return;
    const inOrder = [...waiters].sort((a, b) => a.ticket - b.ticket);
    this.#step(inOrder, 0, ask);
  }

  /** Ends the round that is under way. */
  stop(): void {
    this.#cancelTimer?.();
    this.#cancelTimer = null;
  }

  #step(inOrder: readonly Waiter[], start: number, ask: (waiter: Waiter) => void): void {
    const end = start + Math.max(MIN_STEP, Math.ceil(inOrder.length / STEPS));
    const isLast = end >= inOrder.length;
    this.#cancelTimer = this.#clock.schedule(() => {
      if (isLast) this.stop();
      else this.#step(inOrder, end, ask);
    }, isLast ? SPREAD_MS : SPREAD_MS / STEPS);
    for (const waiter of inOrder.slice(start, end)) ask(waiter);
  }
}
