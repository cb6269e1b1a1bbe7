/**
 * Until when a lease is proven, by whatever the service said last.
 *
 * @module
 */
import { type Clock, deadlineMs, type Instant, wasSuspended } from "./clock.ts";
import { type Grant, grantDeadlineMs } from "./grant.ts";

/** What the answers so far prove of one lease. Pure but for the clock that it is asked about. */
export class Proof {
  /** The longest TTL asked for so far: the service's answers are never believed beyond it. */
  #ttlMs: number;
  #deadlineMs: number;
  /** What the last proof was worth: its drift is what the clocks may differ by. */
  #validMs: number;
  /** When the last answered proof was sent. */
  #sent: Instant;

  constructor(grant: Grant) {
    this.#ttlMs = grant.ttlMs;
    this.#sent = grant.sent;
    this.#validMs = Math.min(grant.ttlMs, grant.validMs);
    this.#deadlineMs = grantDeadlineMs(grant);
  }

  /** The longest TTL asked for so far, in ms. */
  get ttlMs(): number {
    return this.#ttlMs;
  }

  /** From when on the lease is no longer proven, in monotonic ms. */
  get deadlineMs(): number {
    return this.#deadlineMs;
  }

  /** Another answer, be it late: it counts from when its request was sent, and shortens nothing. */
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

  /** Whether the process was suspended since: then nothing counts until there is another answer. */
  isStale(clock: Clock): boolean {
    return wasSuspended(clock, this.#sent, this.#validMs);
  }
}
