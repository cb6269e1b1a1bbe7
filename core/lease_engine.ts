/**
 * The leases of one strategy instance: how they are opened, extended, lost and closed together.
 *
 * @module
 */
import { Background } from "./background.ts";
import { type Clock, type Instant, settledWithin, SYSTEM_CLOCK } from "./clock.ts";
import type { LeaseLostReason } from "./errors.ts";
import { type Grant, grantDeadlineMs, type LeaseActions } from "./grant.ts";
import { type LeaseContext, ManagedLease } from "./lease.ts";
import { LeaseSchedule } from "./lease_schedule.ts";

/** Owns deadlines, timers and clean-ups; knows no server. */
export class LeaseEngine {
  readonly clock: Clock;
  /** Clean-ups, and calls that may leave one behind. {@linkcode LeaseEngine.close} waits for them. */
  readonly background: Background = new Background();
  readonly #leases: LeaseSchedule<ManagedLease>;
  readonly #stop = new AbortController();
  readonly #context: LeaseContext;

  constructor(clock: Clock = SYSTEM_CLOCK) {
    this.clock = clock;
    this.#leases = new LeaseSchedule(clock);
    const { background, stopped } = this;
    this.#context = { clock, schedule: this.#leases, background, stopped };
  }

  /** Aborts when the engine is closed: background work ends then. */
  get stopped(): AbortSignal {
    return this.#stop.signal;
  }

  /**
   * Opens a lease for a grant, or returns `null` if the reply arrived after the deadline that it
   * grants: that is not a lease.
   */
  open(grant: Grant, actions: LeaseActions): ManagedLease | null {
    if (grantDeadlineMs(grant) <= this.clock.now()) return null;
    const lease = new ManagedLease(this.#context, actions, grant);
    this.#leases.add(lease);
    return lease;
  }

  /** Extends all leases: a request sent at `sent` proved them for `validMs` from then. */
  extendAll(sent: Instant, validMs: number): void {
    for (const lease of this.#leases) lease.extend(sent, validMs);
  }

  /** Ends all leases: their session, for instance, is over. */
  loseAll(reason: LeaseLostReason): void {
    for (const lease of [...this.#leases]) lease.lose(reason);
  }

  /**
   * Releases all leases but those that outlive their instance, waits for clean-ups, both within
   * `timeoutMs`; then stops all work.
   */
  async close(timeoutMs: number): Promise<void> {
    const released = Promise.all(Array.from(this.#leases, (lease) => lease.close()));
    const done = released.then(() => this.background.idle());
    await settledWithin(this.clock, done, timeoutMs);
    this.#stop.abort();
  }
}
