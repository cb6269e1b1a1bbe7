import type { Clock } from "../time/clock.ts";
import { type Timed, TimeHeap } from "../time/time_heap.ts";

const TOGETHER_MS = 100;

export interface ScheduledLease extends Timed {
  /** The time at which the schedule looks at it. May be earlier than `dueMs`, never later. Only the schedule writes it. */
  atMs: number;
  /** Only the schedule writes it. */
  order: number;
  /** When the next renewal or the end of the lease is due, in monotonic ms. */
  readonly dueMs: number;
  /** Renews or ends the lease if that is due. Returns the next `dueMs`, `null` if the lease is over. */
  tick(nowMs: number): number | null;
}

/**
 * One timer for all held leases of a strategy instance. When it fires, `tick()` of those that are due within
 * {@linkcode TOGETHER_MS} is called, so that their renewals leave together with the one that is due now.
 */
export class LeaseSchedule<L extends ScheduledLease> implements Iterable<L> {
  readonly #clock: Clock;
  readonly #heap = new TimeHeap<L>();
  /** The leases that are looked at now, and are not in the heap. */
  #ticking: readonly L[] = [];
  #count = 0;
  #cancelTimer: (() => void) | null = null;
  /** When the timer fires, in monotonic ms; `Infinity` without a timer. */
  #timerMs = Infinity;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** All leases, whatever is added or removed meanwhile. */
  [Symbol.iterator](): Iterator<L> {
    return new Set([...this.#heap, ...this.#ticking]).values();
  }

  add(lease: L): void {
    lease.order = this.#count++;
    lease.atMs = lease.dueMs;
    this.#heap.add(lease);
    this.#wakeBy(lease.atMs);
  }

  /** Removes a lease that is no longer held. Unless another one is due at some time, there is no timer. */
  remove(lease: L): void {
    if (!this.#heap.delete(lease)) return;
    if (this.#heap.size > 0 && this.#heap.first!.atMs < Infinity) return;
    this.#cancelTimer?.();
    this.#timerMs = Infinity;
  }

  /** The `dueMs` of a lease may be earlier than before. If it is later, the next tick finds out. */
  update(lease: L): void {
    const { dueMs } = lease;
    if (dueMs >= lease.atMs || !this.#heap.delete(lease)) return;
    lease.atMs = dueMs;
    this.#heap.add(lease);
    this.#wakeBy(dueMs);
  }

  #wakeBy(dueMs: number): void {
    if (dueMs >= this.#timerMs) return;
    this.#cancelTimer?.();
    this.#timerMs = dueMs;
    this.#cancelTimer = this.#clock.schedule(() => this.#fire(), dueMs - this.#clock.now());
  }

  #fire(): void {
    this.#timerMs = Infinity;
    const nowMs = this.#clock.now();
    // All are taken out first: a lease may be due again at once.
    this.#ticking = this.#takeDue(nowMs + TOGETHER_MS);
    for (const lease of this.#ticking) {
      const atMs = lease.tick(nowMs);
      if (atMs === null) continue;
      lease.atMs = atMs;
      this.#heap.add(lease);
    }
    this.#ticking = [];
    const { first } = this.#heap;
    if (first !== undefined) this.#wakeBy(first.atMs);
  }

  #takeDue(untilMs: number): L[] {
    const due: L[] = [];
    for (;;) {
      const { first } = this.#heap;
      if (first === undefined || first.atMs > untilMs) return due;
      this.#heap.delete(first);
      due.push(first);
    }
  }
}
