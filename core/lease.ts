/**
 * One lease: its deadline, renewal, loss and release. How the deadline is computed is in
 * `lease_validity.ts`, how releases are sent in `lease_release.ts`, the shared timer in
 * `lease_schedule.ts`.
 *
 * @module
 */

import { attemptMs, retryDelayMs } from "./attempts.ts";
import { type Instant, instant, pause, settledWithin } from "./clock.ts";
import type { Lease } from "./distributed_lock.ts";
import { LeaseLostError, type LeaseLostReason, LockError } from "./errors.ts";
import type { Grant, LeaseActions, RenewAnswer } from "./grant.ts";
import { LeaseRelease, refusedRelease, type ReleaseContext } from "./lease_release.ts";
import type { LeaseSchedule } from "./lease_schedule.ts";
import { LeaseValidity } from "./lease_validity.ts";
import { promiseTry } from "./promise_try.ts";
import { checkTtl } from "./validate.ts";

/** The parts that all leases of one strategy instance share. */
export interface LeaseContext extends ReleaseContext {
  readonly schedule: LeaseSchedule<ManagedLease>;
}

/** How early, in ms, a renewal may be sent in order to leave together with others. */
const BURST_MS = 100;

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
export class ManagedLease implements Lease {
  readonly name: string;
  readonly ownerId: string;
  readonly fencingToken: bigint;
  readonly #context: LeaseContext;
  readonly #actions: LeaseActions;
  readonly #grant: Grant;
  readonly #validity: LeaseValidity;
  readonly #releases: LeaseRelease;
  readonly #maxHoldAtMs: number;
  #state: "held" | "kept" | "releasing" | "released" | "lost" = "held";
  /** Why the lease was lost. Also set if the service answers a release that the lock was gone before. */
  #error: LeaseLostError | null = null;
  /** Why the lease was lost while it was held: the reason of `signal`. */
  #loss: LeaseLostError | null = null;
  /** Aborts `signal`; created when `signal` is first read. */
  #controller: AbortController | null = null;
  /** When the next renewal is due, in monotonic ms; `Infinity` for never. */
  #renewAtMs: number;
  /** The longest TTL in ms that was requested, answered or not: how long the server may keep the lock. */
  #longestTtlMs: number;
  /** The renewal under way, until its answer or the end of its attempt. */
  #renewing: Promise<boolean> | null = null;
  /** Called when the lease is no longer kept. */
  #whenKept: (() => void) | null = null;
  /** The result of `release()`, from its first call on. */
  #releasing: Promise<boolean> | null = null;
  /**
   * Set while the last renewal has not been answered "held": its error, or `undefined` while the answer
   * is awaited. Decides whether a lease that runs out is "unreachable" or "expired".
   */
  #unanswered: { cause: unknown } | null = null;

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
    this.#releases = new LeaseRelease(context, actions, grant.ttlMs);
    this.#longestTtlMs = grant.ttlMs;
    this.#renewAtMs = this.#nextRenewalMs(grant.sent, grant.validMs);
  }

  /** Whether the lock is ours and renewed, for the holder or at disposal. */
  get #isLive(): boolean {
    return this.#state === "held" || this.#state === "kept";
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
    if (ttlMs !== undefined) checkTtl(ttlMs);
    for (;;) {
      this.#checkDeadline();
      if (this.#error !== null) throw this.#error;
      if (this.#state !== "held") throw this.#releasedError("renew");
      if (this.#actions.renew === undefined) return;
      // One renewal at a time. The one under way may ask for another TTL, so ours follows it.
      if (this.#renewing !== null) await this.#renewing;
      else if (await this.#startRenewal(ttlMs ?? this.#grant.ttlMs)) return;
      else if (this.#state === "held") { // not lost or released in the meantime
        await this.#pause(retryDelayMs(this.#grant.ttlMs));
      }
    }
  }

  release(): Promise<boolean> {
    this.#checkDeadline();
    if (!this.#isLive) return (this.#releasing ?? Promise.resolve()).then(() => false);
    return this.#startRelease(this.#renewing);
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
    if (this.#isLive) this.#startRelease(isHurried ? null : this.#renewing);
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
    if (ttlMs !== undefined) this.#longestTtlMs = Math.max(this.#longestTtlMs, ttlMs);
    this.#unanswered = null;
    this.#renewAtMs = this.#nextRenewalMs(sent, validMs);
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
   * Returns when to call again, in monotonic ms.
   */
  tick(nowMs: number): number {
    this.#checkDeadline();
    if (!this.#isLive) return Infinity;
    const { ttlMs, watchEveryMs = Infinity } = this.#grant;
    const earlyMs = Math.min(BURST_MS, ttlMs / 10, watchEveryMs);
    if (this.#renewing === null && this.#renewAtMs <= nowMs + earlyMs) {
      this.#startRenewal(ttlMs);
    }
    return this.dueMs;
  }

  /** When the next renewal or the end of the lease is due, in monotonic ms. */
  get dueMs(): number {
    return Math.min(this.#endMs, this.#renewing === null ? this.#renewAtMs : Infinity);
  }

  /** Ends the lease if its deadline or `maxHoldMs` is over. Timers may be late, the clock is not. */
  #checkDeadline(): void {
    if (!this.#isLive) return;
    const nowMs = this.#context.clock.now();
    if (nowMs >= this.#maxHoldAtMs) this.lose("max-hold");
    else if (nowMs < this.#validity.deadlineMs) return;
    else this.#lapse(this.#unanswered?.cause);
  }

  /** Ends the lease at its deadline. */
  #lapse(cause: unknown): void {
    if (this.#actions.lapsed !== undefined) this.lose(this.#actions.lapsed(cause), cause);
    else if (this.#unanswered === null) this.lose("expired");
    else this.lose("unreachable", cause);
  }

  /**
   * Whether the last answer still proves the lease. It does not if the process was suspended since
   * (invariant 7). Then this also sends a renewal, unless one is under way: its answer proves the lease.
   */
  #isProven(): boolean {
    if (!this.#validity.isStale(this.#context.clock)) return true;
    if (this.#renewing === null && this.#actions.renew !== undefined) {
      // Without automatic renewal the lease must be proven but not prolonged. The server never shortens a
      // lease, so a renewal of 1 ms leaves its TTL as it is.
      this.#startRenewal(this.#grant.autoRenew ? this.#grant.ttlMs : 1);
    }
    return false;
  }

  /** When the first renewal after an answer is due, in monotonic ms; `Infinity` for never. */
  #nextRenewalMs(sent: Instant, validMs: number): number {
    if (this.#grant.watchEveryMs !== undefined) return sent.nowMs + this.#grant.watchEveryMs;
    if (!this.#grant.autoRenew || this.#actions.renew === undefined) return Infinity;
    // Two thirds of the granted time before the deadline. That time is the TTL, or less if the server
    // granted less. After a `renew()` with a longer TTL the deadline is later, and so is this.
    return this.#validity.deadlineMs - (Math.min(this.#grant.ttlMs, validMs) * 2) / 3;
  }

  /**
   * Sends one renewal. Resolves after its answer, or after `#attemptMs` without one; with true if the
   * answer was "held". An answer that comes later is still handled. Only one attempt runs at a time.
   */
  #startRenewal(ttlMs: number): Promise<boolean> {
    const { clock } = this.#context;
    const sent = instant(clock);
    let held = false;
    this.#longestTtlMs = Math.max(this.#longestTtlMs, ttlMs);
    this.#unanswered ??= { cause: undefined };
    const answered = promiseTry(() => this.#actions.renew!(ttlMs)).then(
      (answer) => held = this.#onAnswer(sent, ttlMs, answer),
      (cause) => this.#onAnswer(sent, ttlMs, { state: "unknown", cause }),
    );
    const renewing = settledWithin(clock, answered, attemptMs(this.#grant.ttlMs)).then(() => {
      this.#renewing = null;
      if (!this.#isLive) return held;
      // Infinity: the lease is not renewed automatically. Only `renew()` itself then tries again.
      if (!held && this.#renewAtMs !== Infinity) {
        this.#renewAtMs = clock.now() + retryDelayMs(this.#grant.ttlMs);
      }
      this.#context.schedule.update(this);
      return held;
    });
    this.#renewing = renewing;
    return renewing;
  }

  /** Handles the answer to a renewal that was sent at `sent`. Returns whether it is "held". */
  #onAnswer(sent: Instant, ttlMs: number, answer: RenewAnswer): boolean {
    this.#checkDeadline();
    if (!this.#isLive) return false;
    if (answer.state === "lost") this.lose(answer.reason, answer.cause);
    else if (answer.state === "unknown") this.#unanswered = { cause: answer.cause };
    else this.extend(sent, answer.validMs, ttlMs);
    return answer.state === "held";
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
    this.#releases.inBackground(this.#longestTtlMs, this.#renewing, this.#state === "lost");
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
