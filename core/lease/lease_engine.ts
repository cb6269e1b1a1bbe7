/**
 * All leases of one strategy instance: opens them, and extends, loses or closes them together. The
 * life of a single lease is in `lease.ts`.
 *
 * @module
 */
import { Background } from "./lifetime.ts";
import {
  type Clock,
  deadlineMs,
  type Instant,
  settledWithin,
  SYSTEM_CLOCK,
} from "../time/clock.ts";
import type { LeaseLostReason } from "../contract/errors.ts";
import type { Grant, LeaseActions } from "./grant.ts";
import { type LeaseContext, ManagedLease } from "./lease.ts";
import { LeaseSchedule } from "./lease_schedule.ts";
import { areHoldsTraced } from "./tracing.ts";

/** Knows no server: a strategy passes in a {@linkcode Grant}, and {@linkcode LeaseActions} that send requests. */
export class LeaseEngine {
  readonly clock: Clock;
  /** {@linkcode LeaseEngine.close} waits for it. */
  readonly background: Background = new Background();
  readonly #hurry = new AbortController();
  readonly #stop = new AbortController();
  /** Aborts at the end of {@linkcode LeaseEngine.close}. Background work then stops retrying. */
  readonly stopped: AbortSignal = this.#stop.signal;
  readonly #context: LeaseContext;

  /**
   * @param strategy The name of the strategy, as the channels show it.
   * @param clock The clock of all waits.
   * @param onRenewalLate The user's option, which gets the leases that are renewed late.
   * @param scheduleClock The clock whose timers check the leases, and may keep the process alive.
   */
  constructor(
    strategy: string,
    clock: Clock = SYSTEM_CLOCK,
    onRenewalLate?: LeaseContext["onRenewalLate"],
    scheduleClock: Clock = clock,
  ) {
    this.clock = clock;
    const { background, stopped } = this;
    const { signal: hurried } = this.#hurry;
    const schedule = new LeaseSchedule<ManagedLease>(scheduleClock);
    const common = { strategy, clock, schedule, background, hurried, stopped };
    this.#context = { ...common, onRenewalLate, answerMs: 1 };
  }

  /**
   * Opens a lease for a grant. From now on it is renewed and lost as its grant says.
   *
   * @returns The lease, or `null` if the deadline of the grant is over, because the reply took too
   * long (invariant 1). The caller must then clean up what the grant left on the server.
   */
  open(grant: Grant, actions: LeaseActions): ManagedLease | null {
    const { sent, startMs = sent.nowMs, ttlMs, validMs } = grant;
    const endMs = deadlineMs(startMs, ttlMs, validMs);
    if (endMs <= this.clock.now()) return null;
    const lease = new ManagedLease(this.#context, actions, grant, endMs);
    this.#context.schedule.add(lease);
    if (areHoldsTraced()) lease.traceGrant();
    return lease;
  }

  /** Extends all held leases: the answer to a request sent at `sent` proves them for `validMs`. */
  extendAll(sent: Instant, validMs: number): void {
    for (const lease of this.#context.schedule) lease.extend(sent, validMs);
  }

  loseAll(reason: LeaseLostReason, cause?: unknown): void {
    for (const lease of [...this.#context.schedule]) lease.lose(reason, cause);
  }

  /**
   * Ends all leases for their holders at once, and keeps their locks until the holders release them, for
   * `keepMs` at most. Then releases all leases except those that outlive their instance, and waits for these
   * releases and for background work, `timeoutMs` in all (with 0 no answer is awaited). Then it stops all
   * retries. Never rejects.
   */
  async close(timeoutMs: number, keepMs: number = timeoutMs / 2): Promise<void> {
    const endMs = this.clock.now() + timeoutMs;
    const kept = Array.from(this.#context.schedule, (lease) => lease.keep());
    if (kept.length > 0 && keepMs > 0) await settledWithin(this.clock, Promise.all(kept), keepMs);
    const isHurried = timeoutMs === 0;
    if (isHurried) this.#hurry.abort();
    const released = Promise.all(
      Array.from(this.#context.schedule, (lease) => lease.close(isHurried)),
    );
    const done = released.then(() => this.background.idle());
    await settledWithin(this.clock, done, Math.max(0, endMs - this.clock.now()));
    this.#stop.abort();
  }
}
