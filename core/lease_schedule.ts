/**
 * One timer for all held leases of a strategy instance. The renewals that it triggers are in
 * `lease.ts`.
 *
 * @module
 */
import type { Clock } from "./clock.ts";
import { type Timed, TimeHeap } from "./time_heap.ts";

/** Leases that are due within this time in ms are looked at together. */
const TOGETHER_MS = 100;

/** The part of a lease that the schedule uses. */
export interface ScheduledLease {
  /** When the next renewal or the end of the lease is due, in monotonic ms. */
  readonly dueMs: number;
  /** Renews or ends the lease if that is due. Returns the next `dueMs`. */
  tick(nowMs: number): number;
}

/** A lease in the heap. Its time may be earlier than `dueMs` by now, never later. */
interface Entry<L> extends Timed {
  readonly lease: L;
  atMs: number;
}

/**
 * Sets a timer for the earliest `dueMs`. When it fires, `tick()` of the leases that are due within
 * 100 ms is called: so renewals that are due soon leave together with the one that is due now. The
 * other leases are not looked at.
 */
export class LeaseSchedule<L extends ScheduledLease> implements Iterable<L> {
  readonly #clock: Clock;
  readonly #entries = new Map<L, Entry<L>>();
  readonly #heap = new TimeHeap<Entry<L>>();
  /** How many leases were ever added. */
  #count = 0;
  #cancelTimer: (() => void) | null = null;
  /** When the timer fires, in monotonic ms; `Infinity` without a timer. */
  #timerMs = Infinity;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  [Symbol.iterator](): Iterator<L> {
    return this.#entries.keys();
  }

  /** Adds a lease that was just granted. */
  add(lease: L): void {
    const entry = { lease, atMs: lease.dueMs, order: this.#count++, index: -1 };
    this.#entries.set(lease, entry);
    this.#insert(entry);
  }

  /** Removes a lease that is no longer held. Without leases there is no timer. */
  remove(lease: L): void {
    const entry = this.#entries.get(lease);
    if (entry === undefined) return;
    this.#entries.delete(lease);
    this.#heap.delete(entry);
    if (this.#entries.size === 0) this.#disarm();
  }

  /** The `dueMs` of a lease may be earlier than before. If it is later, the next tick finds out. */
  update(lease: L): void {
    const entry = this.#entries.get(lease);
    if (entry === undefined || lease.dueMs >= entry.atMs || !this.#heap.delete(entry)) return;
    entry.atMs = lease.dueMs;
    this.#insert(entry);
  }

  #insert(entry: Entry<L>): void {
    this.#heap.add(entry);
    this.#wakeBy(entry.atMs);
  }

  #wakeBy(dueMs: number): void {
    if (dueMs >= this.#timerMs) return;
    this.#cancelTimer?.();
    this.#timerMs = dueMs;
    this.#cancelTimer = this.#clock.schedule(() => this.#fire(), dueMs - this.#clock.now());
  }

  #disarm(): void {
    this.#cancelTimer?.();
    this.#cancelTimer = null;
    this.#timerMs = Infinity;
  }

  #fire(): void {
    this.#cancelTimer = null;
    this.#timerMs = Infinity;
    const nowMs = this.#clock.now();
    // All are taken out first: a lease may be due again at once.
    for (const entry of this.#takeDue(nowMs + TOGETHER_MS)) {
      const { lease } = entry;
      if (!this.#entries.has(lease)) continue; // an earlier one has ended it
      entry.atMs = lease.tick(nowMs);
      if (this.#entries.has(lease)) this.#heap.add(entry);
    }
    const { first } = this.#heap;
    if (first !== undefined) this.#wakeBy(first.atMs);
  }

  #takeDue(untilMs: number): Entry<L>[] {
    const due: Entry<L>[] = [];
    for (;;) {
      const { first } = this.#heap;
      if (first === undefined || first.atMs > untilMs) return due;
      this.#heap.delete(first);
      due.push(first);
    }
  }
}
