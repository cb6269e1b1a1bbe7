/**
 * The held leases of one strategy instance, on one timer.
 *
 * @module
 */
import type { Clock } from "./clock.ts";

/** A lease, as far as the schedule needs to know it. */
export interface ScheduledLease {
  /** When something is due, in monotonic ms. */
  readonly dueMs: number;
  /** Does what is due; returns when something is due next, in monotonic ms. */
  tick(nowMs: number): number;
}

/** Calls `tick()` of each held lease when its deadline or its renewal is due. */
export class LeaseSchedule<L extends ScheduledLease> implements Iterable<L> {
  readonly #clock: Clock;
  readonly #leases = new Set<L>();
  #cancelTimer: (() => void) | null = null;
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

  /** Looks at the leases no later than `dueMs`, in monotonic ms. */
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
