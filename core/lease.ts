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

/** At most this long in ms a renewal is sent early to leave together with others. */
const BURST_MS = 100;

function clamp(value: number, low: number, high: number): number {
  return Math.min(Math.max(value, low), high);
}

/** A {@linkcode Lease} as its strategy sees it. */
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
  /** Why the last renewal has no answer; `null` if it has one. */
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

  /** The moment at which the lease stops being provable, in monotonic ms. */
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
    this.#settle();
    if (this.#state === "lost") this.#controller.abort(this.#error);
    return this.#controller.signal;
  }

  throwIfLost(): void {
    this.#settle();
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
      this.#settle();
      if (this.#error !== null) throw this.#error;
      if (this.#state !== "held") throw this.#releasedError("renew");
      if (this.#actions.renew === undefined) return;
      if (this.#renewing !== null) await this.#renewing;
      else if (await this.#startRenewal(ttlMs ?? this.#grant.ttlMs)) return;
      else if (this.#state === "held") { // and not released meanwhile
        await pause(this.#context.clock, this.#retryDelayMs(), this.#context.stopped);
      }
    }
  }

  release(): Promise<boolean> {
    this.#settle();
    if (this.#state !== "held") {
      return (this.#releasing ?? Promise.resolve()).then(() => false);
    }
    this.#state = "releasing";
    this.#context.schedule.remove(this);
    return this.#releasing = this.#release();
  }

  /** The instance is disposed: gives the lease back, unless it is to be found again by its owner id. */
  async close(): Promise<void> {
    if (!this.#grant.outlivesDisposal) return void await this.release();
    if (this.#state !== "held") return void await this.#releasing;
    this.#state = "released";
    this.#context.schedule.remove(this);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.release();
  }

  /** The service proved the lease by other means than a renewal (a session's heartbeat). */
  extend(sent: Instant, validMs: number, ttlMs?: number): void {
    if (this.#state === "held") this.#settle();
    if (this.#state !== "held" && this.#state !== "releasing") return;
    this.#validity.extend(sent, validMs, ttlMs);
    this.#unanswered = null;
    this.#renewAtMs = this.#nextRenewalMs(sent, validMs);
  }

  /** The service, or a message from it, says that the lease is gone. */
  lose(reason: LeaseLostReason, cause?: unknown): void {
    if (this.#state !== "held") return;
    this.#state = "lost";
    this.#error = new LeaseLostError(this.name, reason, cause === undefined ? {} : { cause });
    this.#context.schedule.remove(this);
    this.#controller?.abort(this.#error);
    // A renewal may be under way that the server still executes: take back what it prolongs.
    this.#cleanUp();
  }

  /** Does what is due, and returns when to come back, in monotonic ms. */
  tick(nowMs: number): number {
    this.#settle();
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

  /** Loss is known by the clock, whatever timers and replies say. */
  #settle(): void {
    if (this.#state !== "held") return;
    const nowMs = this.#context.clock.now();
    if (nowMs >= this.#maxHoldAtMs) this.lose("max-hold");
    else if (nowMs < this.#validity.deadlineMs) return;
    else if (this.#actions.lapsed !== undefined) this.lose(this.#actions.lapsed());
    else if (this.#unanswered === null) this.lose("expired");
    else this.lose("unreachable", this.#unanswered.cause);
  }

  /** Whether the last proof still counts; if not, asks for another one. */
  #isProven(): boolean {
    if (!this.#validity.isStale(this.#context.clock)) return true;
    if (this.#renewing === null && this.#actions.renew !== undefined) {
      // Without automatic renewal the question must not prolong the lease: 1 ms never does.
      this.#startRenewal(this.#grant.autoRenew ? this.#grant.ttlMs : 1);
    }
    return false;
  }

  #nextRenewalMs(sent: Instant, validMs: number): number {
    if (this.#grant.watchEveryMs !== undefined) return sent.nowMs + this.#grant.watchEveryMs;
    if (!this.#grant.autoRenew || this.#actions.renew === undefined) return Infinity;
    // A third of what was granted, be it a whole TTL or a short claim; later after a longer renewal.
    return this.#validity.deadlineMs - (Math.min(this.#grant.ttlMs, validMs) * 2) / 3;
  }

  /** How long an attempt may stay without an answer before the next one. */
  get #attemptMs(): number {
    return clamp(this.#grant.ttlMs / 6, 20, 2_000);
  }

  #retryDelayMs(): number {
    return clamp(this.#grant.ttlMs / 20, 5, 500) * (0.5 + Math.random() / 2);
  }

  /** Sends one renewal; true if it was answered "held" in time. One at a time. */
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

  /** Takes an answer, be it late: it counts from its own sending. Returns whether it proves the lease. */
  #onAnswer(sent: Instant, ttlMs: number, answer: RenewAnswer): boolean {
    this.#settle();
    if (this.#state !== "held") return false;
    if (answer.state === "lost") this.lose(answer.reason, answer.cause);
    else if (answer.state === "unknown") this.#unanswered = { cause: answer.cause };
    else this.extend(sent, answer.validMs, ttlMs);
    return answer.state === "held";
  }

  async #release(): Promise<boolean> {
    const { clock, stopped } = this.#context;
    this.#context.background.enter();
    // Whatever goes unanswered from here on, a lease that is provable now was ours until now.
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

  /** Releases in the background until the service has answered, or has surely dropped the lease. */
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
