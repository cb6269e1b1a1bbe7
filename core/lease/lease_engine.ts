import { Background } from "./lifetime.ts";
import {
  type Clock,
  deadlineMs,
  type Instant,
  settledWithin,
  SYSTEM_CLOCK,
  wasSuspended,
} from "../time/clock.ts";
import type { LeaseLostReason } from "../contract/errors.ts";
import type { Grant, LeaseActions } from "./grant.ts";
import { type LeaseContext, ManagedLease } from "./lease.ts";
import { LeaseSchedule } from "./lease_schedule.ts";
import { areHoldsTraced } from "./tracing.ts";

/** The leases of one strategy instance: opens them, and extends, loses or closes them together. Knows no server. */
export class LeaseEngine {
  readonly clock: Clock;
  /** {@linkcode LeaseEngine.close} waits for it. */
  readonly background: Background = new Background();
  readonly #hurry = new AbortController();
  readonly #stop = new AbortController();
  /** Aborts at the end of {@linkcode LeaseEngine.close}. Background work then stops retrying. */
  readonly stopped: AbortSignal = this.#stop.signal;
  readonly #context: LeaseContext;

  /** @param scheduleClock The clock whose timers check the leases, and may keep the process alive. */
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
   * Opens a lease for a grant. Returns `null` if its deadline is over, because the reply took too long (invariant 1),
   * or may be over, because the process was suspended meanwhile (invariant 7). The caller must then ask again, or
   * clean up what the grant left on the server (invariant 4).
   */
  open(grant: Grant, actions: LeaseActions): ManagedLease | null {
    const { sent, startMs = sent.nowMs, ttlMs, validMs } = grant;
    const endMs = deadlineMs(startMs, ttlMs, validMs);
    const isSuspended = wasSuspended(this.clock, sent, Math.min(ttlMs, validMs));
    if (isSuspended || endMs <= this.clock.now()) return null;
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
   * Ends all leases for their holders at once, and keeps their locks until the holders release them, for `keepMs` at
   * most. Then releases all leases except those that outlive their instance, and waits for these releases and for
   * background work, `timeoutMs` in all (with 0 no answer is awaited). At the end of that time it sends the releases
   * that still wait behind a renewal, awaits no answer, and stops all retries. Never rejects.
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
    if (!await settledWithin(this.clock, done, Math.max(0, endMs - this.clock.now()))) {
      this.#hurry.abort(); // what still waits behind a renewal is sent now
      await settledWithin(this.clock, done, 0);
    }
    this.#stop.abort();
  }
}
