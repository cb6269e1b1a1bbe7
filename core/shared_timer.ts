/**
 * Many deadlines on one timer of the runtime. The leases have their own timer, in `lease_schedule.ts`.
 *
 * @module
 */
import type { Clock } from "./clock.ts";

interface Deadline {
  readonly dueMs: number;
  readonly callback: () => void;
}

/**
 * A clock whose deadlines all share one timer. Most deadlines are cancelled before they are due, and
 * arming a timer of the runtime for each would cost more than the rest of an uncontended acquire.
 *
 * Cancelling a deadline leaves the timer armed, but without deadlines it does not keep the process
 * alive. After `close()` each new deadline gets a timer of its own.
 */
export class SharedTimer implements Clock {
  readonly #clock: Clock;
  readonly #deadlines = new Set<Deadline>();
  #timer: ReturnType<Clock["schedule"]> | null = null;
  #timerMs = Infinity;
  #isClosed = false;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  now(): number {
    return this.#clock.now();
  }

  wall(): number {
    return this.#clock.wall();
  }

  schedule(callback: () => void, delayMs: number): () => void {
    if (this.#isClosed) return this.#clock.schedule(callback, delayMs);
    const deadline = { dueMs: this.#clock.now() + Math.max(0, delayMs), callback };
    this.#deadlines.add(deadline);
    if (deadline.dueMs < this.#timerMs) this.#arm(deadline.dueMs);
    else if (this.#deadlines.size === 1) this.#timer?.hold?.(true);
    return () => {
      if (this.#deadlines.delete(deadline) && this.#deadlines.size === 0) {
        this.#timer?.hold?.(false);
      }
    };
  }

  /** Cancels the timer and calls all pending callbacks now, so that no caller waits for ever. */
  close(): void {
    this.#isClosed = true;
    this.#timer?.();
    this.#timer = null;
    const pending = [...this.#deadlines];
    this.#deadlines.clear();
    for (const { callback } of pending) callback();
  }

  #arm(dueMs: number): void {
    this.#timer?.();
    this.#timerMs = dueMs;
    this.#timer = this.#clock.schedule(() => this.#fire(), dueMs - this.#clock.now());
  }

  #fire(): void {
    this.#timer = null;
    this.#timerMs = Infinity;
    const nowMs = this.#clock.now();
    const due = [...this.#deadlines].filter(({ dueMs }) => dueMs <= nowMs)
      .sort((a, b) => a.dueMs - b.dueMs);
    // An earlier callback may have cancelled a later one.
    for (const deadline of due) if (this.#deadlines.delete(deadline)) deadline.callback();
    if (this.#isClosed) return;
    let nextMs = Infinity;
    for (const { dueMs } of this.#deadlines) nextMs = Math.min(nextMs, dueMs);
    if (nextMs < this.#timerMs) this.#arm(nextMs);
  }
}
