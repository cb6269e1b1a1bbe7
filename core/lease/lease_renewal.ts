/**
 * When a lease is renewed, and the renewal that is under way. The effect of an answer on the lease is in
 * `lease.ts`.
 *
 * @module
 */
import { attemptMs, retryDelayMs } from "./attempts.ts";
import { type Clock, type Instant, instant, settledWithin } from "../time/clock.ts";
import type { Grant, LeaseActions, RenewAnswer } from "./grant.ts";
import { promiseTry } from "../contract/promise_try.ts";

/** How early, in ms, a renewal may be sent in order to leave together with others. */
const BURST_MS = 100;

/** Gets the answers and the ends of the renewals of one lease. */
export interface RenewalListener {
  /**
   * A renewal that was sent at `sent` is answered, perhaps after its attempt has ended. Returns whether the
   * lease goes on.
   */
  onRenewalAnswer(sent: Instant, ttlMs: number, answer: RenewAnswer): boolean;
  /** The attempt of a renewal is over: answered, or without an answer in time. */
  onRenewalEnd(): void;
}

/** The renewals of one lease. One attempt runs at a time. */
export class LeaseRenewal {
  readonly #clock: Clock;
  readonly #actions: LeaseActions;
  readonly #grant: Grant;
  readonly #listener: RenewalListener;
  /** When the next renewal is due, in monotonic ms; `Infinity` for never. */
  #atMs = Infinity;
  /** From when on the lease counts as renewed late, in monotonic ms; `Infinity` once that is reported. */
  #lateMs = Infinity;
  /** The longest TTL in ms that was requested, answered or not: how long the server may keep the lock. */
  #longestTtlMs: number;
  #running: Promise<boolean> | null = null;
  /**
   * Set while the last renewal has not been answered "held": its error, or `undefined` while the answer
   * is awaited. Decides whether a lease that runs out is "unreachable" or "expired".
   */
  #unanswered: { readonly cause: unknown } | null = null;

  constructor(clock: Clock, actions: LeaseActions, grant: Grant, listener: RenewalListener) {
    this.#clock = clock;
    this.#actions = actions;
    this.#grant = grant;
    this.#listener = listener;
    this.#longestTtlMs = grant.ttlMs;
  }

  /** Whether the lease can be renewed at all. */
  get isPossible(): boolean {
    return this.#actions.renew !== undefined;
  }

  /** The renewal under way, until its answer or the end of its attempt. */
  get running(): Promise<boolean> | null {
    return this.#running;
  }

  get longestTtlMs(): number {
    return this.#longestTtlMs;
  }

  get unanswered(): { readonly cause: unknown } | null {
    return this.#unanswered;
  }

  /** When {@linkcode LeaseRenewal.tick} must be called, in monotonic ms. */
  get dueMs(): number {
    return Math.min(this.#running === null ? this.#atMs : Infinity, this.#lateMs);
  }

  /**
   * The service has answered that the lease is held until `deadlineMs`: the grant, a renewal or a heartbeat.
   *
   * @param sent When the answered request was sent.
   * @param validMs How long, in ms, the answer said that the lease has left.
   */
  answered(sent: Instant, validMs: number, deadlineMs: number, ttlMs = 0): void {
    this.#longestTtlMs = Math.max(this.#longestTtlMs, ttlMs);
    this.#unanswered = null;
    const { watchEveryMs, autoRenew } = this.#grant;
    if (!this.isPossible || (watchEveryMs === undefined && !autoRenew)) return;
    // Of the granted time, which is the TTL or less, two thirds are left when a renewal is due, and one when
    // it is late. After a `renew()` with a longer TTL the deadline is later, and so is this.
    const thirdMs = Math.min(this.#grant.ttlMs, validMs) / 3;
    this.#atMs = watchEveryMs === undefined ? deadlineMs - 2 * thirdMs : sent.nowMs + watchEveryMs;
    this.#lateMs = deadlineMs === Infinity ? Infinity : deadlineMs - thirdMs;
  }

  /** Starts a renewal if one is due. Returns whether the lease is late since now. */
  tick(nowMs: number): boolean {
    const { ttlMs, watchEveryMs = Infinity } = this.#grant;
    const earlyMs = Math.min(BURST_MS, ttlMs / 10, watchEveryMs);
    if (this.#running === null && this.#atMs <= nowMs + earlyMs) this.start(ttlMs);
    if (nowMs < this.#lateMs) return false;
    this.#lateMs = Infinity;
    return true;
  }

  /**
   * Sends one renewal. Resolves after its answer, or without one when the attempt has lasted too long; with
   * true if the answer was "held". An answer that comes later is still handled.
   */
  start(ttlMs: number): Promise<boolean> {
    const sent = instant(this.#clock);
    let held = false;
    this.#longestTtlMs = Math.max(this.#longestTtlMs, ttlMs);
    this.#unanswered ??= { cause: undefined };
    const answered = promiseTry(() => this.#actions.renew!(ttlMs)).then(
      (answer) => held = this.#onAnswer(sent, ttlMs, answer),
      (cause) => this.#onAnswer(sent, ttlMs, { state: "unknown", cause }),
    );
    const limitMs = attemptMs(this.#grant.ttlMs);
    return this.#running = settledWithin(this.#clock, answered, limitMs).then(() => {
      this.#onEnd(held);
      return held;
    });
  }

  #onAnswer(sent: Instant, ttlMs: number, answer: RenewAnswer): boolean {
    if (answer.state === "unknown") this.#unanswered = { cause: answer.cause };
    return this.#listener.onRenewalAnswer(sent, ttlMs, answer);
  }

  #onEnd(held: boolean): void {
    this.#running = null;
    // Infinity: the lease is not renewed automatically. Only `renew()` itself then tries again.
    if (!held && this.#atMs !== Infinity) {
      this.#atMs = this.#clock.now() + retryDelayMs(this.#grant.ttlMs);
    }
    this.#listener.onRenewalEnd();
  }
}
