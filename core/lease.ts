/**
 * One lease: its deadline, its loss, its renewal and release.
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

/** What the leases of one instance share. */
export interface LeaseContext {
  readonly clock: Clock;
  readonly schedule: LeaseSchedule<ManagedLease>;
  /** Clean-ups, and releases that disposal waits for. */
  readonly background: Background;
  /** Aborts when the instance is closed: from then on nothing is retried. */
  readonly stopped: AbortSignal;
}

/** How early in ms a renewal may be sent, so that several leave together. */
const BURST_MS = 100;

function clamp(value: number, low: number, high: number): number {
  return Math.min(Math.max(value, low), high);
}

/** A {@linkcode Lease} as its strategy uses it. */
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
  #error: LeaseLostError | null = null;
  #controller: AbortController | null = null;
  #renewAtMs: number;
  #renewing: Promise<boolean> | null = null;
  #releasing: Promise<boolean> | null = null;
  /** Why the last renewal is unanswered; `null` if it was answered. */
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
    this.#renewAtMs = this.#nextRenewalMs(grant.sent, grant.validMs);
  }

  /** When the lease ends unless it is renewed, in monotonic ms. */
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
      if (this.#renewing !== null) await this.#renewing;
      else if (await this.#startRenewal(ttlMs ?? this.#grant.ttlMs)) return;
      else if (this.#state === "held") { // not released in the meantime
        await pause(this.#context.clock, this.#retryDelayMs(), this.#context.stopped);
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

  /** Releases the lease because its instance is disposed, unless it outlives the instance. */
  async close(): Promise<void> {
    if (!this.#grant.outlivesDisposal) return void await this.release();
    if (this.#state !== "held") return void await this.#releasing;
    this.#state = "released";
    this.#context.schedule.remove(this);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.release();
  }

  /** Prolongs the lease by an answer to a request sent at `sent`: a renewal or a heartbeat. */
  extend(sent: Instant, validMs: number, ttlMs?: number): void {
    if (this.#state === "held") this.#checkDeadline();
    if (this.#state !== "held" && this.#state !== "releasing") return;
    this.#validity.extend(sent, validMs, ttlMs);
    this.#unanswered = null;
    this.#renewAtMs = this.#nextRenewalMs(sent, validMs);
  }

  /** Ends the lease because the service, or a message from it, says that it is gone. */
  lose(reason: LeaseLostReason, cause?: unknown): void {
    if (this.#state !== "held") return;
    this.#state = "lost";
    this.#error = new LeaseLostError(this.name, reason, cause === undefined ? {} : { cause });
    this.#context.schedule.remove(this);
    this.#controller?.abort(this.#error);
    // The server may still execute a renewal that is under way: release what that prolongs.
    this.#cleanUp();
  }

  /** Does what is due; returns when something is due next, in monotonic ms. */
  tick(nowMs: number): number {
    this.#checkDeadline();
    if (this.#state !== "held") return Infinity;
    const { ttlMs, watchEveryMs = BURST_MS } = this.#grant;
    const earlyMs = Math.min(BURST_MS, ttlMs / 10, watchEveryMs);
    if (this.#renewing === null && this.#renewAtMs <= nowMs + earlyMs) {
      this.#startRenewal(ttlMs);
    }
    return this.dueMs;
  }

  /** When something is due, in monotonic ms. */
  get dueMs(): number {
    return Math.min(this.#endMs, this.#renewing === null ? this.#renewAtMs : Infinity);
  }

  /** Ends the lease if the clock says so: timers and replies may be late (invariant 2). */
  #checkDeadline(): void {
    if (this.#state !== "held") return;
    const nowMs = this.#context.clock.now();
    if (nowMs >= this.#maxHoldAtMs) this.lose("max-hold");
    else if (nowMs < this.#validity.deadlineMs) return;
    else if (this.#actions.lapsed !== undefined) this.lose(this.#actions.lapsed());
    else if (this.#unanswered === null) this.lose("expired");
    else this.lose("unreachable", this.#unanswered.cause);
  }

  /** Whether the last answer still counts (invariant 7); if not, asks for a new one. */
  #isProven(): boolean {
    if (!this.#validity.isStale(this.#context.clock)) return true;
    if (this.#renewing === null && this.#actions.renew !== undefined) {
      // Without automatic renewal the request must not prolong the lease: 1 ms never does.
      this.#startRenewal(this.#grant.autoRenew ? this.#grant.ttlMs : 1);
    }
    return false;
  }

  #nextRenewalMs(sent: Instant, validMs: number): number {
    if (this.#grant.watchEveryMs !== undefined) return sent.nowMs + this.#grant.watchEveryMs;
    if (!this.#grant.autoRenew || this.#actions.renew === undefined) return Infinity;
    // After a third of what was granted: a whole TTL or a short claim. A longer renewal moves it back.
    return this.#validity.deadlineMs - (Math.min(this.#grant.ttlMs, validMs) * 2) / 3;
  }

  /** How long in ms an attempt may stay unanswered before the next one. */
  get #attemptMs(): number {
    return clamp(this.#grant.ttlMs / 6, 20, 2_000);
  }

  #retryDelayMs(): number {
    return clamp(this.#grant.ttlMs / 20, 5, 500) * (0.5 + Math.random() / 2);
  }

  /** Sends one renewal; resolves with true if the answer "held" came in time. One at a time. */
  #startRenewal(ttlMs: number): Promise<boolean> {
    const { clock } = this.#context;
    const sent = instant(clock);
    let held = false;
    this.#unanswered ??= { cause: undefined };
    const answered = promiseTry(() => this.#actions.renew!(ttlMs)).then(
      (answer) => held = this.#onAnswer(sent, ttlMs, answer),
      (cause) => this.#onAnswer(sent, ttlMs, { state: "unknown", cause }),
    );
    const renewing = settledWithin(clock, answered, this.#attemptMs).then(() => {
      this.#renewing = null;
      if (this.#state !== "held") return held;
      if (!held && this.#renewAtMs !== Infinity) {
        this.#renewAtMs = clock.now() + this.#retryDelayMs();
      }
      this.#context.schedule.wakeBy(this.dueMs);
      return held;
    });
    this.#renewing = renewing;
    return renewing;
  }

  /** Handles an answer, which counts from when its request was sent. Returns whether it is "held". */
  #onAnswer(sent: Instant, ttlMs: number, answer: RenewAnswer): boolean {
    this.#checkDeadline();
    if (this.#state !== "held") return false;
    if (answer.state === "lost") this.lose(answer.reason, answer.cause);
    else if (answer.state === "unknown") this.#unanswered = { cause: answer.cause };
    else this.extend(sent, answer.validMs, ttlMs);
    return answer.state === "held";
  }

  async #release(): Promise<boolean> {
    const { clock, stopped } = this.#context;
    this.#context.background.enter();
    // A lease that is valid now was ours until now, even if no release is ever answered.
    let ours = !this.#validity.isStale(clock);
    const leftMs = () => Math.max(0, this.#validity.deadlineMs - clock.now());
    if (this.#renewing !== null) await settledWithin(clock, this.#renewing, leftMs());
    for (let sentBefore = false; !stopped.aborted; sentBefore = true) {
      if (leftMs() === 0) {
        this.#cleanUp();
        break;
      }
      const answer = await this.#tryRelease(leftMs());
      if (answer.state === "released") ours = true;
      else if (answer.state === "gone") {
        ours &&= sentBefore;
        if (!ours) this.#error = new LeaseLostError(this.name, answer.reason);
      }
      if (answer.state !== "unknown") break;
      await pause(clock, Math.min(this.#retryDelayMs(), leftMs()), stopped);
    }
    this.#state = "released";
    this.#context.background.exit();
    return ours;
  }

  /** One attempt, bounded in time. */
  async #tryRelease(leftMs: number): Promise<ReleaseAnswer> {
    let answer: ReleaseAnswer = { state: "unknown", cause: undefined };
    const answered = promiseTry(() => this.#actions.release()).then(
      (given) => void (answer = given),
    );
    await settledWithin(this.#context.clock, answered, clamp(leftMs, 1, this.#attemptMs));
    return answer;
  }

  /** Releases in the background until the service answers, or until it has certainly expired the lease. */
  #cleanUp(): void {
    const { clock, stopped } = this.#context;
    const untilMs = clock.now() + this.#validity.ttlMs;
    this.#context.background.run(async () => {
      if (this.#renewing !== null) await this.#renewing;
      while (!stopped.aborted && clock.now() < untilMs) {
        const answer = await this.#tryRelease(this.#attemptMs);
        if (answer.state !== "unknown") return;
        await pause(clock, this.#retryDelayMs(), stopped);
      }
    });
  }

  #releasedError(action: string): LockError {
    return new LockError(
      `Cannot ${action} the lease on ${JSON.stringify(this.name)} as it was released`,
      this.name,
      { code: "ERR_LEASE_RELEASED" },
    );
  }
}
