/**
 * A lease that is lost `maxHoldMs` after some moment. The strategies count that time from the grant; in a set
 * it counts from the last grant of all.
 *
 * @module
 */
import type { Lease, LockMode } from "../contract/distributed_lock.ts";
import { LeaseLostError } from "../contract/errors.ts";
import { type Cancel, type Clock, SYSTEM_CLOCK } from "../time/clock.ts";

/** A lease that is held for `maxHoldMs` from now at most. */
export class LimitedLease implements Lease {
  readonly #inner: Lease;
  readonly #clock: Clock;
  readonly #endMs: number;
  readonly #cancel: Cancel;
  readonly #controller = new AbortController();
  readonly #signal: AbortSignal;
  #isReleased = false;

  constructor(inner: Lease, maxHoldMs: number, clock: Clock = SYSTEM_CLOCK) {
    this.#inner = inner;
    this.#clock = clock;
    this.#endMs = clock.now() + maxHoldMs;
    this.#cancel = clock.schedule(() => this.#checkTime(), maxHoldMs);
    this.#signal = AbortSignal.any([inner.signal, this.#controller.signal]);
    this.#signal.addEventListener("abort", () => this.#cancel(), { once: true });
  }

  get name(): string {
    return this.#inner.name;
  }

  get ownerId(): string {
    return this.#inner.ownerId;
  }

  get mode(): LockMode {
    return this.#inner.mode;
  }

  get fencingToken(): bigint {
    return this.#inner.fencingToken;
  }

  get signal(): AbortSignal {
    this.#checkTime();
    return this.#signal;
  }

  get remainingMs(): number {
    this.#checkTime();
    if (this.#controller.signal.aborted) return 0;
    return Math.min(this.#inner.remainingMs, this.#endMs - this.#clock.now());
  }

  get isHeld(): boolean {
    return this.remainingMs > 0;
  }

  throwIfLost(): void {
    this.#checkTime();
    this.#controller.signal.throwIfAborted();
    this.#inner.throwIfLost();
  }

  async renew(ttlMs?: number): Promise<void> {
    this.#checkTime();
    this.#controller.signal.throwIfAborted();
    try {
      await this.#inner.renew(ttlMs);
    } finally {
      this.#controller.signal.throwIfAborted(); // the caller would see "released"
    }
  }

  async release(): Promise<boolean> {
    this.#checkTime();
    this.#isReleased = true;
    this.#cancel();
    const isOurs = await this.#inner.release();
    return isOurs && !this.#controller.signal.aborted;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.release().catch(() => {});
  }

  /** The members that logs may show: the owner id is a secret, and JSON has no big integers. */
  toJSON(): Record<string, unknown> {
    const { name, fencingToken, remainingMs } = this;
    return { name, fencingToken: String(fencingToken), remainingMs };
  }

  [Symbol.for("nodejs.util.inspect.custom")](): Record<string, unknown> {
    return this.toJSON();
  }

  /** Ends the lease if its time is over: timers may be late. The release goes on in the background. */
  #checkTime(): void {
    if (this.#isReleased || this.#clock.now() < this.#endMs) return;
    // The inner getter checks the clock, too: an earlier loss is the one that counts.
    if (this.#inner.signal.aborted || this.#controller.signal.aborted) return;
    this.#controller.abort(new LeaseLostError(this.name, "max-hold"));
    this.#inner.release().catch(() => {});
  }
}
