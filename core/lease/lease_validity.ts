/**
 * The deadline of a lease, computed from the answers of the service. The loss at the deadline is in
 * `lease.ts`.
 *
 * @module
 */
import { type Clock, deadlineMs, type Instant, wasSuspended } from "../time/clock.ts";
import { type Grant, grantDeadlineMs } from "./grant.ts";

/** The validity of one lease: until when it may be believed (invariant 1). Sets no timers. */
export class LeaseValidity {
  /** The longest TTL of an answered request, in ms. No answer is believed for longer than that. */
  #ttlMs: number;
  #deadlineMs: number;
  /** How long, in ms, the newest answered request made the lease valid. For the check of suspension. */
  #validMs: number;
  /** When the newest answered request was sent. */
  #sent: Instant;

  constructor(grant: Grant) {
    this.#ttlMs = grant.ttlMs;
    this.#sent = grant.sent;
    this.#validMs = Math.min(grant.ttlMs, grant.validMs);
    this.#deadlineMs = grantDeadlineMs(grant);
  }

  /** The moment, in monotonic ms, from which the lease is no longer valid. */
  get deadlineMs(): number {
    return this.#deadlineMs;
  }

  /**
   * Moves the deadline by an answer, which may be a late one. Its `validMs` counts from `sent`,
   * when its request was sent. The deadline never becomes earlier.
   */
  extend(sent: Instant, validMs: number, ttlMs = this.#ttlMs): void {
    this.#ttlMs = Math.max(this.#ttlMs, ttlMs);
    this.#deadlineMs = Math.max(
      this.#deadlineMs,
      deadlineMs(sent.nowMs, this.#ttlMs, validMs),
    );
    if (sent.nowMs < this.#sent.nowMs) return; // a newer request was answered before
    this.#sent = sent;
    this.#validMs = Math.min(this.#ttlMs, validMs);
  }

  /**
   * Whether the process was suspended since the newest answered request was sent. The deadline then
   * proves nothing: the monotonic clock stood still, the TTL on the server went on (invariant 7).
   */
  isStale(clock: Clock): boolean {
    return wasSuspended(clock, this.#sent, this.#validMs);
  }
}
