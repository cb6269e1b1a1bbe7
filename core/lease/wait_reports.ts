/**
 * Reports to waiters of a queue in this process that their places have changed. The places themselves are
 * in `local_queue.ts`.
 *
 * @module
 */
import type { WaitInfo } from "../contract/distributed_lock.ts";
import { BACKGROUND_CLOCK, type Cancel } from "../time/clock.ts";
import type { LinkedSet } from "./linked_set.ts";

/** The least time in ms between two reports: else each release would cost more, the more waiters there are. */
const REPORT_EVERY_MS = 100;

/** A waiter, as far as reports know it. */
export interface ReportedWaiter {
  readonly onWait: ((info: WaitInfo) => void) | undefined;
  /** Ends the wait, if the caller's `onWait` throws. */
  reject(reason: unknown): void;
}

/** The places that are reported. */
export interface Places {
  readonly waiters: LinkedSet<ReportedWaiter>;
  /** Who waits ahead of them, with a turn already. */
  readonly ahead: object | null;
}

/** The reports of one queue. All changes within a step, and within {@linkcode REPORT_EVERY_MS}, are one. */
export class WaitReports {
  readonly #places: Places;
  /** What each waiter with an `onWait` was told last. */
  readonly #told = new Map<ReportedWaiter, WaitInfo>();
  #reportedMs = -Infinity;
  #cancelTimer: Cancel | null = null;

  constructor(places: Places) {
    this.#places = places;
  }

  /** Reports to a new waiter, the last one of its queue, at once. */
  enter(waiter: ReportedWaiter): void {
    const { ahead, waiters } = this.#places;
    const count = waiters.size + (ahead === null ? 0 : 1);
    this.#tell(waiter, { position: count, waiters: count });
  }

  leave(waiter: ReportedWaiter): void {
    this.#told.delete(waiter);
    if (this.#told.size > 0) return;
    this.#cancelTimer?.();
    this.#cancelTimer = null;
  }

  /** Some waiter has another place, or their number has changed. */
  onChange(): void {
    if (this.#told.size === 0 || this.#cancelTimer !== null) return;
    const delayMs = this.#reportedMs + REPORT_EVERY_MS - BACKGROUND_CLOCK.now();
    this.#cancelTimer = BACKGROUND_CLOCK.schedule(() => this.#report(), delayMs);
  }

  #report(): void {
    this.#cancelTimer = null;
    this.#reportedMs = BACKGROUND_CLOCK.now();
    const { ahead, waiters } = this.#places;
    let position = ahead === null ? 0 : 1;
    const count = position + waiters.size;
    for (const waiter of [...waiters]) {
      position++;
      const told = this.#told.get(waiter);
      if (told === undefined || (told.position === position && told.waiters === count)) continue;
      this.#tell(waiter, { position, waiters: count });
    }
  }

  #tell(waiter: ReportedWaiter, info: WaitInfo): void {
    this.#told.set(waiter, info);
    try {
      waiter.onWait?.(info);
    } catch (error) {
      waiter.reject(error);
    }
  }
}
