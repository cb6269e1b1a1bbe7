/**
 * One timer for all held leases of a strategy instance. The renewals that it triggers are in
 * `lease.ts`.
 *
 * @module
 */
import type { Clock } from "./clock.ts";

/** The part of a lease that the schedule uses. */
export interface ScheduledLease {
  /** When the next renewal or the end of the lease is due, in monotonic ms. */
  readonly dueMs: number;
  /** Renews or ends the lease if that is due. Returns the next `dueMs`. */
  tick(nowMs: number): number;
}

/**
 * Sets a timer for the earliest `dueMs`. When it fires, `tick()` of *every* held lease is called: so
 * renewals that are due soon leave together with the one that is due now.
 */
export class LeaseSchedule<L extends ScheduledLease> implements Iterable<L> {
  readonly #clock: Clock;
  readonly #leases = new Set<L>();
  #cancelTimer: (() => void) | null = null;
  /** When the timer fires, in monotonic ms; `Infinity` without a timer. */
  #timerMs = Infinity;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  [Symbol.iterator](): Iterator<L> {
    return this.#leases.values();
  }

  /** Adds a lease that was just granted. */
  add(lease: L): void {
    this.#leases.add(lease);
    this.wakeBy(lease.dueMs);
  }

  /** Removes a lease that is no longer held. Without leases there is no timer. */
  remove(lease: L): void {
    this.#leases.delete(lease);
    if (this.#leases.size > 0) return;
    this.#cancelTimer?.();
    this.#cancelTimer = null;
    this.#timerMs = Infinity;
  }

  /** Makes the timer fire no later than `dueMs`, in monotonic ms. A later `dueMs` changes nothing. */
  wakeBy(dueMs: number): void {
    if (dueMs >= this.#timerMs || this.#leases.size === 0) return;
    this.#cancelTimer?.();
    this.#timerMs = dueMs;
    this.#cancelTimer = this.#clock.schedule(() => this.#fire(), dueMs - this.#clock.now());
  }

  #fire(): void {
    this.#timerMs = Infinity;
    this.#cancelTimer = null;
    const nowMs = this.#clock.now();
    let nextMs = Infinity;
    for (const lease of [...this.#leases]) nextMs = Math.min(nextMs, lease.tick(nowMs));
    this.wakeBy(nextMs);
  }
}
