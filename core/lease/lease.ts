/**
 * One lease: its states, its deadline, loss and release. How the deadline is computed is in
 * `lease_validity.ts`, how renewals and releases are sent in `lease_renewal.ts` and `lease_release.ts`,
 * the shared timer in `lease_schedule.ts`.
 *
 * @module
 */

import { retryDelayMs } from "./attempts.ts";
import { type Instant, pause } from "../time/clock.ts";
import type { Lease } from "../contract/distributed_lock.ts";
import { LeaseLostError, type LeaseLostReason, LockError } from "../contract/errors.ts";
import type { Grant, LeaseActions, RenewAnswer } from "./grant.ts";
import { LeaseRelease, refusedRelease, type ReleaseContext } from "./lease_release.ts";
import { LeaseRenewal, type RenewalListener } from "./lease_renewal.ts";
import type { LeaseSchedule, ScheduledLease } from "./lease_schedule.ts";
import { LeaseValidity } from "./lease_validity.ts";
import { ttl } from "../contract/options.ts";

/** The parts that all leases of one strategy instance share. */
export interface LeaseContext extends ReleaseContext {
  readonly schedule: LeaseSchedule<ManagedLease>;
  readonly listener: LeaseListener;
}

/** Gets the events of leases that their holders may want to know. */
export interface LeaseListener {
  /** Less than a third of the lease's time is left, although it is renewed automatically. */
  onRenewalLate(lease: Lease): void;
}

/**
 * A {@linkcode Lease} as its strategy uses it.
 *
 * - **Held** until its deadline. The schedule calls {@linkcode ManagedLease.tick}, which sends
 *   renewals. The answer "held" moves the deadline to later; a renewal without an answer is retried while
 *   time remains. After a suspension of the process the lease is unproven, which is temporary: the
 *   answer to a newer request proves it again (invariant 7).
 * - **Lost** at the deadline or at `maxHoldMs`, or earlier if the service says so. The signal aborts,
 *   and the lease is released in the background, since the server may still hold the lock for it.
 * - **Kept** when its strategy instance is disposed: over for its holder, as if it were lost, but still
 *   renewed, so that nobody else gets the lock while the holder stops. A release ends that.
 * - **Releasing** after `release()`, until the service answers, and at most until the deadline. Then
 *   **released**. If the deadline came first, the background continues to release.
 *
 * The members of {@linkcode Lease} read the clock first, so they are right before any timer has run
 * (invariant 2).
 */
export class ManagedLease implements Lease, RenewalListener, ScheduledLease {
  readonly name: string;
  readonly ownerId: string;
  readonly fencingToken: bigint;
  /** Implements {@linkcode ScheduledLease}. */
  atMs = Infinity;
  /** Implements {@linkcode ScheduledLease}. */
  order = 0;
  /** Implements {@linkcode ScheduledLease}. */
  index = -1;
  readonly #context: LeaseContext;
  readonly #actions: LeaseActions;
  readonly #grant: Grant;
  readonly #validity: LeaseValidity;
  readonly #renewal: LeaseRenewal;
  readonly #maxHoldAtMs: number;
  #state: "held" | "kept" | "releasing" | "released" | "lost" = "held";
  /** Why the lease was lost. Also set if the service answers a release that the lock was gone before. */
  #error: LeaseLostError | null = null;
  /** Why the lease was lost while it was held: the reason of `signal`. */
  #loss: LeaseLostError | null = null;
  /** Aborts `signal`; created when `signal` is first read. */
  #controller: AbortController | null = null;
  /** Called when the lease is no longer kept. */
  #whenKept: (() => void) | null = null;
  /** The result of `release()`, from its first call on. */
  #releasing: Promise<boolean> | null = null;

  constructor(context: LeaseContext, actions: LeaseActions, grant: Grant) {
    this.#context = context;
    this.#actions = actions;
    this.#grant = grant;
    this.name = grant.name;
    this.ownerId = grant.ownerId;
    this.fencingToken = grant.fencingToken;
    const { maxHoldMs } = grant;
    this.#maxHoldAtMs = maxHoldMs === undefined ? Infinity : context.clock.now() + maxHoldMs;
    this.#validity = new LeaseValidity(grant);
    this.#renewal = new LeaseRenewal(context.clock, actions, grant, this);
    this.#renewal.answered(grant.sent, grant.validMs, this.#validity.deadlineMs);
  }

  /** Whether the lock is ours and renewed, for the holder or at disposal. */
  get #isLive(): boolean {
    return this.#state === "held" || this.#state === "kept";
  }

  /** Made when it is needed: leases that are held need no memory for it. */
  get #releases(): LeaseRelease {
    return new LeaseRelease(this.#context, this.#actions, this.#grant.ttlMs);
  }

  /** When the lease ends: at its deadline or at `maxHoldMs`, in monotonic ms. */
  get #endMs(): number {
    return Math.min(this.#validity.deadlineMs, this.#maxHoldAtMs);
  }

  get remainingMs(): number {
    if (this.#state !== "held") return 0;
    const leftMs = this.#endMs - this.#context.clock.now();
    if (leftMs <= 0) return 0;
    return this.#isProven() ? leftMs : 0;
  }

  get isHeld(): boolean {
    return this.remainingMs > 0;
  }

  get signal(): AbortSignal {
    this.#controller ??= new AbortController();
    this.#checkDeadline();
    if (this.#loss !== null) this.#controller.abort(this.#loss);
    return this.#controller.signal;
  }

  throwIfLost(): void {
    this.#checkDeadline();
    if (this.#error !== null) throw this.#error;
    if (this.#state !== "held") throw this.#releasedError("use");
    if (!this.#isProven()) {
      const cause = new Error("The process was suspended since the service last answered");
      throw new LeaseLostError(this.name, "unreachable", { cause });
    }
  }

  async renew(ttlMs?: number): Promise<void> {
    if (ttlMs !== undefined) ttl().check("'ttlMs'", ttlMs);
    for (;;) {
      this.#checkDeadline();
      if (this.#error !== null) throw this.#error;
      if (this.#state !== "held") throw this.#releasedError("renew");
      if (!this.#renewal.isPossible) return;
      // One renewal at a time. The one under way may ask for another TTL, so ours follows it.
      const { running } = this.#renewal;
      if (running !== null) await running;
      else if (await this.#renewal.start(ttlMs ?? this.#grant.ttlMs)) return;
      else if (this.#state === "held") { // not lost or released in the meantime
        await this.#pause(retryDelayMs(this.#grant.ttlMs));
      }
    }
  }

  release(): Promise<boolean> {
    this.#checkDeadline();
    if (!this.#isLive) return (this.#releasing ?? Promise.resolve()).then(() => false);
    return this.#startRelease(this.#renewal.running);
  }

  /**
   * Ends the lease for its holder, because the strategy instance is disposed. The lock is kept until it is
   * released, unless the lease outlives the instance: then it is neither kept nor released.
   *
   * @returns Resolves when the lock is no longer kept.
   */
  keep(): Promise<void> {
    this.#checkDeadline();
    if (this.#state !== "held") return Promise.resolve();
    const { outlivesDisposal } = this.#grant;
    this.#state = outlivesDisposal ? "lost" : "kept";
    const kept = new Promise<void>((resolve) => this.#whenKept = resolve);
    if (outlivesDisposal) this.#leaveSchedule();
    this.#endForHolder("disposed");
    return kept;
  }

  /**
   * Releases the lock at the end of disposal. Never rejects.
   *
   * @param isHurried Whether the release is sent now, even if a renewal is under way.
   */
  async close(isHurried: boolean): Promise<void> {
    this.#checkDeadline();
    if (this.#isLive) this.#startRelease(isHurried ? null : this.#renewal.running);
    await this.#releasing?.catch(() => {});
  }

  /** The members that logs may show: the owner id is a secret, and JSON has no big integers. */
  toJSON(): Record<string, unknown> {
    const { name, fencingToken, remainingMs } = this;
    // JSON has no infinity either: a lease without a TTL has no such member.
    const time = remainingMs === Infinity ? {} : { remainingMs };
    return { name, fencingToken: String(fencingToken), ...time };
  }

  /** `console.log()` shows the same, in Deno, Node and Bun. */
  [Symbol.for("nodejs.util.inspect.custom")](): Record<string, unknown> {
    return this.toJSON();
  }

  /** Releases the lock. Never rejects: that would hide the error of the block that it ends. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.release().catch(() => {});
  }

  /**
   * Moves the deadline to later, because the service answered a request (a renewal or a heartbeat) that
   * was sent at `sent`. Does nothing unless the lease is held: a lost lease stays lost.
   */
  extend(sent: Instant, validMs: number, ttlMs?: number): void {
    this.#checkDeadline();
    if (!this.#isLive) return;
    this.#validity.extend(sent, validMs, ttlMs);
    this.#renewal.answered(sent, validMs, this.#validity.deadlineMs, ttlMs);
  }

  /** Ends the lease as lost and aborts its signal. Does nothing unless the lease is held or kept. */
  lose(reason: LeaseLostReason, cause?: unknown): void {
    if (!this.#isLive) return;
    this.#state = "lost";
    this.#leaveSchedule();
    this.#endForHolder(reason, cause);
    // The server may still hold the lock, in two cases: `maxHoldMs` ended the lease before its TTL, or
    // a renewal that is under way is executed late.
    this.#cleanUp();
  }

  /**
   * Called by the schedule: ends the lease if its deadline is over, or starts a renewal if one is due.
   * Returns when to call again, in monotonic ms; `null` if the lease is over.
   */
  tick(nowMs: number): number | null {
    this.#checkDeadline();
    if (!this.#isLive) return null;
    const isLate = this.#renewal.tick(nowMs);
    if (isLate && this.#state === "held") this.#context.listener.onRenewalLate(this);
    return this.#isLive ? this.dueMs : null;
  }

  /** When the next renewal or the end of the lease is due, in monotonic ms. */
  get dueMs(): number {
    return Math.min(this.#endMs, this.#renewal.dueMs);
  }

  /** Ends the lease if its deadline or `maxHoldMs` is over. Timers may be late, the clock is not. */
  #checkDeadline(): void {
    if (!this.#isLive) return;
    const nowMs = this.#context.clock.now();
    if (nowMs >= this.#maxHoldAtMs) this.lose("max-hold");
    else if (nowMs < this.#validity.deadlineMs) return;
    else this.#lapse();
  }

  /** Ends the lease at its deadline. */
  #lapse(): void {
    const { unanswered } = this.#renewal;
    const cause = unanswered?.cause;
    if (this.#actions.lapsed !== undefined) this.lose(this.#actions.lapsed(cause), cause);
    else if (unanswered === null) this.lose("expired");
    else this.lose("unreachable", cause);
  }

  /**
   * Whether the last answer still proves the lease. It does not if the process was suspended since
   * (invariant 7). Then this also sends a renewal, unless one is under way: its answer proves the lease.
   */
  #isProven(): boolean {
    if (!this.#validity.isStale(this.#context.clock)) return true;
    if (this.#renewal.running === null && this.#renewal.isPossible) {
      // Without automatic renewal the lease must be proven but not prolonged. The server never shortens a
      // lease, so a renewal of 1 ms leaves its TTL as it is.
      this.#renewal.start(this.#grant.autoRenew ? this.#grant.ttlMs : 1);
    }
    return false;
  }

  /** Implements {@linkcode RenewalListener}. */
  onRenewalAnswer(sent: Instant, ttlMs: number, answer: RenewAnswer): boolean {
    this.#checkDeadline();
    if (!this.#isLive) return false;
    if (answer.state === "lost") this.lose(answer.reason, answer.cause);
    else if (answer.state === "held") this.extend(sent, answer.validMs, ttlMs);
    return answer.state === "held";
  }

  /** Implements {@linkcode RenewalListener}. */
  onRenewalEnd(): void {
    if (this.#isLive) this.#context.schedule.update(this);
  }

  /** Ends the lease for its holder, unless that has been done. */
  #endForHolder(reason: LeaseLostReason, cause?: unknown): void {
    if (this.#loss !== null) return;
    const options = cause === undefined ? {} : { cause };
    this.#error = this.#loss = new LeaseLostError(this.name, reason, options);
    this.#controller?.abort(this.#loss);
  }

  /** The lease is neither renewed nor kept any more. */
  #leaveSchedule(): void {
    this.#context.schedule.remove(this);
    this.#whenKept?.();
  }

  #startRelease(renewing: Promise<unknown> | null): Promise<boolean> {
    this.#state = "releasing";
    this.#leaveSchedule();
    return this.#releasing = this.#release(renewing);
  }

  /**
   * Releases the lock. Resolves with true if the lease was ours until `release()` was called (invariant
   * 6).
   *
   * @throws {LockSetupError} If the service refuses.
   */
  async #release(renewing: Promise<unknown> | null): Promise<boolean> {
    const { clock, background } = this.#context;
    const { deadlineMs } = this.#validity;
    // The result if no release is ever answered: a lease that is proven now was ours until now.
    const isOurs = !this.#validity.isStale(clock);
    background.enter();
    try {
      const last = await this.#releases.untilAnswered(deadlineMs, renewing);
      const { answer } = last;
      if (answer.state === "refused") throw refusedRelease(this.name, answer);
      if (answer.state === "released") return true;
      if (answer.state === "unknown") {
        if (clock.now() >= deadlineMs) this.#cleanUp();
        return isOurs;
      }
      // After an attempt without an answer, that attempt may be the one that released the lock.
      if (isOurs && last.isRepeated) return true;
      this.#error ??= new LeaseLostError(this.name, answer.reason);
      return false;
    } finally {
      this.#state = "released";
      background.exit();
    }
  }

  /**
   * Releases in the background, at most for the longest TTL that was requested: by then the lock has
   * expired on the server, even if a renewal was executed just now.
   */
  #cleanUp(): void {
    const { longestTtlMs, running } = this.#renewal;
    this.#releases.inBackground(longestTtlMs, running, this.#state === "lost");
  }

  /** Pauses before a retry. With many leases, a listener of each on the same signal would take too long. */
  #pause(delayMs: number): Promise<void> {
    const { clock, stopped } = this.#context;
    return pause(clock, delayMs, AbortSignal.any([stopped]));
  }

  #releasedError(action: string): LockError {
    return new LockError(
      `Cannot ${action} the lease on lock ${JSON.stringify(this.name)}: it was released; ` +
        "acquire the lock again",
      this.name,
      { code: "ERR_LEASE_RELEASED" },
    );
  }
}
