/**
 * Until when a lease is valid, computed from the answers of the service.
 *
 * @module
 */
import { type Clock, deadlineMs, type Instant, wasSuspended } from "./clock.ts";
import { type Grant, grantDeadlineMs } from "./grant.ts";

/** The validity of one lease. Pure, but for the clock that is passed in. */
export class LeaseValidity {
  /** The longest TTL requested so far. An answer is never believed beyond it. */
  #ttlMs: number;
  #deadlineMs: number;
  /** The validity of the last answer: 1 % of it is the drift that the clocks may have. */
  #validMs: number;
  /** When the last answered request was sent. */
  #sent: Instant;

  constructor(grant: Grant) {
    this.#ttlMs = grant.ttlMs;
    this.#sent = grant.sent;
    this.#validMs = Math.min(grant.ttlMs, grant.validMs);
    this.#deadlineMs = grantDeadlineMs(grant);
  }

  /** The longest TTL requested so far, in ms. */
  get ttlMs(): number {
    return this.#ttlMs;
  }

  /** The moment, in monotonic ms, from which the lease is no longer valid. */
  get deadlineMs(): number {
    return this.#deadlineMs;
  }

  /** Adds an answer. It counts from when its request was sent, even if it is late, and never shortens. */
  extend(sent: Instant, validMs: number, ttlMs = this.#ttlMs): void {
    this.#ttlMs = Math.max(this.#ttlMs, ttlMs);
    this.#deadlineMs = Math.max(
      this.#deadlineMs,
      deadlineMs(sent.nowMs, this.#ttlMs, validMs),
    );
    if (sent.nowMs < this.#sent.nowMs) return;
    this.#sent = sent;
    this.#validMs = Math.min(this.#ttlMs, validMs);
  }

  /** Whether the process was suspended since the last answer: then only a new answer counts. */
  isStale(clock: Clock): boolean {
    return wasSuspended(clock, this.#sent, this.#validMs);
  }
}
