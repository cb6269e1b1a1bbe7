/**
 * One lease: its deadline, renewal, loss, release and clean-up. How the deadline is computed is in
 * `lease_validity.ts`; the timer that all leases share is in `lease_schedule.ts`.
 *
 * @module
 */

import type { Background } from "./background.ts";
import { type Clock, type Instant, instant, pause, settledWithin } from "./clock.ts";
import type { Lease } from "./distributed_lock.ts";
import { LeaseLostError, type LeaseLostReason, LockError } from "./errors.ts";
import type { Grant, LeaseActions, ReleaseAnswer, RenewAnswer } from "./grant.ts";
import type { LeaseSchedule } from "./lease_schedule.ts";
import { LeaseValidity } from "./lease_validity.ts";
import { promiseTry } from "./promise_try.ts";
import { checkTtl } from "./validate.ts";

/** The parts that all leases of one strategy instance share. */
export interface LeaseContext {
  readonly clock: Clock;
  readonly schedule: LeaseSchedule<ManagedLease>;
  /** The clean-ups and the running releases. Disposal waits for both. */
  readonly background: Background;
  /** Aborts at the end of disposal. From then on nothing is retried. */
  readonly stopped: AbortSignal;
}

/** How early, in ms, a renewal may be sent in order to leave together with others. */
const BURST_MS = 100;

function clamp(value: number, low: number, high: number): number {
  return Math.min(Math.max(value, low), high);
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
  readonly #maxHoldAtMs: number;
  #state: "held" | "releasing" | "released" | "lost" = "held";
  /** Why the lease was lost. Also set if the service answers a release that the lock was gone before. */
  #error: LeaseLostError | null = null;
  /** Aborts `signal`; created when `signal` is first read. */
  #controller: AbortController | null = null;
  /** When the next renewal is due, in monotonic ms; `Infinity` for never. */
  #renewAtMs: number;
  /** The longest TTL in ms that was requested, answered or not: how long the server may keep the lock. */
  #longestTtlMs: number;
  /** The renewal under way, until its answer or the end of its attempt. */
  #renewing: Promise<boolean> | null = null;
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
    this.#longestTtlMs = grant.ttlMs;
    this.#renewAtMs = this.#nextRenewalMs(grant.sent, grant.validMs);
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

  get signal(): AbortSignal {
    this.#controller ??= new AbortController();
    this.#checkDeadline();
    if (this.#state === "lost") this.#controller.abort(this.#error);
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
        await this.#pause(this.#retryDelayMs());
      }
    }
  }

  release(): Promise<boolean> {
    this.#checkDeadline();
    if (this.#state !== "held") {
      return (this.#releasing ?? Promise.resolve()).then(() => false);
    }
    this.#state = "releasing";
    this.#context.schedule.remove(this);
    return this.#releasing = this.#release();
  }

  /**
   * Ends the lease because its strategy instance is disposed: releases it, or, if it outlives the
   * instance, stops renewing it and leaves the lock on the server until its TTL ends.
   */
  async close(): Promise<void> {
    if (!this.#grant.outlivesDisposal) return void await this.release();
    if (this.#state !== "held") return void await this.#releasing;
    this.#state = "released";
    this.#context.schedule.remove(this);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.release();
  }

  /**
   * Moves the deadline to later, because the service answered a request (a renewal or a heartbeat) that
   * was sent at `sent`. Does nothing unless the lease is held: a lost lease stays lost.
   */
  extend(sent: Instant, validMs: number, ttlMs?: number): void {
    this.#checkDeadline();
    if (this.#state !== "held") return;
    this.#validity.extend(sent, validMs, ttlMs);
    this.#unanswered = null;
    this.#renewAtMs = this.#nextRenewalMs(sent, validMs);
  }

  /** Ends the lease as lost and aborts its signal. Does nothing unless the lease is held. */
  lose(reason: LeaseLostReason, cause?: unknown): void {
    if (this.#state !== "held") return;
    this.#state = "lost";
    this.#error = new LeaseLostError(this.name, reason, cause === undefined ? {} : { cause });
    this.#context.schedule.remove(this);
    this.#controller?.abort(this.#error);
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
    if (this.#state !== "held") return Infinity;
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
    if (this.#state !== "held") return;
    const nowMs = this.#context.clock.now();
    if (nowMs >= this.#maxHoldAtMs) this.lose("max-hold");
    else if (nowMs < this.#validity.deadlineMs) return;
    else if (this.#actions.lapsed !== undefined) this.lose(this.#actions.lapsed());
    else if (this.#unanswered === null) this.lose("expired");
    else this.lose("unreachable", this.#unanswered.cause);
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

  /** How long, in ms, one attempt (a renewal or a release) may take before the next one is sent. */
  get #attemptMs(): number {
    return clamp(this.#grant.ttlMs / 6, 20, 2_000);
  }

  /** The pause in ms before a retry, shortened at random so that processes do not retry in step. */
  #retryDelayMs(): number {
    return clamp(this.#grant.ttlMs / 20, 5, 500) * (0.5 + Math.random() / 2);
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
    const renewing = settledWithin(clock, answered, this.#attemptMs).then(() => {
      this.#renewing = null;
      if (this.#state !== "held") return held;
      // Infinity: the lease is not renewed automatically. Only `renew()` itself then tries again.
      if (!held && this.#renewAtMs !== Infinity) {
        this.#renewAtMs = clock.now() + this.#retryDelayMs();
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
    if (this.#state !== "held") return false;
    if (answer.state === "lost") this.lose(answer.reason, answer.cause);
    else if (answer.state === "unknown") this.#unanswered = { cause: answer.cause };
    else this.extend(sent, answer.validMs, ttlMs);
    return answer.state === "held";
  }

  /**
   * Sends releases until one is answered, at most until the deadline. Resolves with true if the lease
   * was ours until `release()` was called (invariant 6).
   */
  async #release(): Promise<boolean> {
    const { clock, stopped } = this.#context;
    this.#context.background.enter();
    // The result if no release is ever answered: a lease that is proven now was ours until now.
    let ours = !this.#validity.isStale(clock);
    const leftMs = () => Math.max(0, this.#validity.deadlineMs - clock.now());
    // A renewal that is under way goes first, for as long as an attempt may take (invariant 3).
    if (this.#renewing !== null) await settledWithin(clock, this.#renewing, leftMs());
    for (let sentBefore = false; !stopped.aborted; sentBefore = true) {
      if (leftMs() === 0) {
        this.#cleanUp();
        break;
      }
      const answer = await this.#tryRelease(leftMs());
      if (answer.state === "released") ours = true;
      else if (answer.state === "gone") {
        // After an attempt without an answer, that attempt may be the one that released the lock.
        ours &&= sentBefore;
        if (!ours) this.#error = new LeaseLostError(this.name, answer.reason);
      }
      if (answer.state !== "unknown") break;
      await this.#pause(Math.min(this.#retryDelayMs(), leftMs()));
    }
    this.#state = "released";
    this.#context.background.exit();
    return ours;
  }

  /** Sends one release. Without an answer within `#attemptMs` and `leftMs` the result is "unknown". */
  async #tryRelease(leftMs: number): Promise<ReleaseAnswer> {
    let answer: ReleaseAnswer = { state: "unknown", cause: undefined };
    const answered = promiseTry(() => this.#actions.release()).then(
      (given) => void (answer = given),
    );
    await settledWithin(this.#context.clock, answered, clamp(leftMs, 1, this.#attemptMs));
    return answer;
  }

  /**
   * Releases in the background until the service answers, at most for the longest TTL that was
   * requested: by then the lock has expired on the server, even if a renewal was executed just now.
   */
  #cleanUp(): void {
    const { clock, stopped } = this.#context;
    const untilMs = clock.now() + this.#longestTtlMs;
    this.#context.background.run(async () => {
      if (this.#renewing !== null) await this.#renewing;
      while (!stopped.aborted && clock.now() < untilMs) {
        const answer = await this.#tryRelease(this.#attemptMs);
        if (answer.state !== "unknown") return;
        await this.#pause(this.#retryDelayMs());
      }
    });
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
