import type { Clock } from "../core/time/clock.ts";
import { type Timed, TimeHeap } from "../core/time/time_heap.ts";

/**
 * Many deadlines on one timer of the runtime: most are cancelled before they are due, and arming a timer for each
 * would cost more than the rest of an uncontended acquire. Without deadlines the timer stays armed, but does not keep
 * the process alive. After `close()` each new deadline gets a timer of its own.
 */
export class SharedTimer implements Clock {
  readonly now: () => number;
  readonly wall: () => number;
  readonly #clock: Clock;
  readonly #deadlines = new TimeHeap<Timed & { readonly callback: () => void }>();
  #count = 0;
  #timer: ReturnType<Clock["schedule"]> | null = null;
  #timerMs = Infinity;
  #isClosed = false;

  constructor(clock: Clock) {
    this.#clock = clock;
    this.now = clock.now.bind(clock);
    this.wall = clock.wall.bind(clock);
  }

  schedule(callback: () => void, delayMs: number): () => void {
    if (this.#isClosed) return this.#clock.schedule(callback, delayMs);
    const atMs = this.now() + Math.max(0, delayMs);
    const deadline = { atMs, order: this.#count++, callback, index: -1 };
    this.#deadlines.add(deadline);
    if (deadline.atMs < this.#timerMs) this.#arm(deadline.atMs);
    else if (this.#deadlines.size === 1) this.#timer?.ref?.();
    return () => {
      if (this.#deadlines.delete(deadline) && this.#deadlines.size === 0) {
        this.#timer?.unref?.();
      }
    };
  }

  /** Cancels the timer and calls all pending callbacks now, so that no caller waits forever. */
  close(): void {
    this.#isClosed = true;
    this.#timer?.();
    for (;;) {
      const { first } = this.#deadlines;
      if (first === undefined) return;
      this.#deadlines.delete(first);
      first.callback();
    }
  }

  #arm(dueMs: number): void {
    this.#timer?.();
    this.#timerMs = dueMs;
    this.#timer = this.#clock.schedule(() => this.#fire(), dueMs - this.now());
  }

  #fire(): void {
    this.#timer = null;
    this.#timerMs = Infinity;
    // Only those that are due now: a callback may set the next deadline for the same moment.
    const nowMs = this.now();
    const count = this.#count;
    const isDue = ({ atMs, order }: Timed) => atMs <= nowMs && order < count;
    for (;;) {
      const { first } = this.#deadlines;
      if (first === undefined || !isDue(first)) break;
      this.#deadlines.delete(first);
      first.callback();
    }
    const { first } = this.#deadlines;
    if (first !== undefined && first.atMs < this.#timerMs) this.#arm(first.atMs);
  }
}
