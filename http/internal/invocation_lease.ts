/**
 * A lease that ends with the invocation of a function.
 *
 * @module
 */
import type { Lease } from "../../core/distributed_lock.ts";
import { type Clock, SYSTEM_CLOCK } from "../../core/clock.ts";
import { LeaseLostError } from "../../core/errors.ts";
import { MIN_TTL_MS } from "../../core/validate.ts";

/** The limits of the lease. */
export interface InvocationLimits {
  /** How long in ms the invocation may still use it, by the wall clock. */
  leftMs(): number;
  /** How long in ms it is until the invocation is killed. */
  remainingMs(): number;
  /** Whether it must be renewed. */
  readonly renews: boolean;
}

/** Shortest time between two renewals, in ms. */
const MIN_DELAY_MS = 5;

/** Longest time in ms until a thawed instance reads the clock. */
const MAX_ARM_MS = 100;

/** How long in ms a lease may last on the server: `remainingMs` is shorter by the clocks' drift. */
export function servedMs({ remainingMs }: Lease): number {
  return (remainingMs + 2) / 0.99;
}

/**
 * A lease that is lost ("max-hold") when its invocation has no time left, even if the process was
 * frozen and its timers stood still. Renewals never reach beyond the invocation, not even a renewal
 * that the service executes late.
 */
export class InvocationLease implements Lease {
  readonly #inner: Lease;
  readonly #limits: InvocationLimits;
  readonly #clock: Clock;
  readonly #controller = new AbortController();
  readonly #ttlMs: number;
  #cancelEnd = () => {};
  #cancelRenewal = () => {};
  #isHeld = true;

  constructor(inner: Lease, limits: InvocationLimits, clock: Clock = SYSTEM_CLOCK) {
    this.#inner = inner;
    this.#limits = limits;
    this.#clock = clock;
    this.#ttlMs = inner.remainingMs;
    if (inner.signal.aborted) this.#onLost();
    if (!this.#isHeld) return;
    inner.signal.addEventListener("abort", this.#onLost);
    this.#arm();
    if (limits.renews) this.#renewLater();
  }

  get name(): string {
    return this.#inner.name;
  }

  get ownerId(): string {
    return this.#inner.ownerId;
  }

  get fencingToken(): bigint {
    return this.#inner.fencingToken;
  }

  get signal(): AbortSignal {
    this.#settle();
    // Reading the inner signal reads the clock: a loss shows before any timer has run.
    if (this.#isHeld && this.#inner.signal.aborted) this.#onLost();
    return this.#controller.signal;
  }

  get remainingMs(): number {
    this.#settle();
    if (!this.#isHeld) return 0;
    return Math.max(0, Math.min(this.#inner.remainingMs, this.#limits.leftMs()));
  }

  throwIfLost(): void {
    this.#settle();
    this.#controller.signal.throwIfAborted();
    this.#inner.throwIfLost();
  }

  async renew(ttlMs: number = this.#ttlMs): Promise<void> {
    this.throwIfOver();
    const boundMs = this.#boundMs(ttlMs);
    if (boundMs < MIN_TTL_MS || boundMs <= this.#inner.remainingMs) {
      return this.#inner.throwIfLost();
    }
    try {
      await this.#inner.renew(boundMs);
    } finally {
      this.throwIfOver(); // else the caller would see "released" instead of the loss
    }
  }

  async release(): Promise<boolean> {
    this.#settle();
    this.#stop();
    return await this.#inner.release();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.release();
  }

  /** Throws if the invocation is over, or the lease was lost before. */
  throwIfOver(): void {
    this.#settle();
    this.#controller.signal.throwIfAborted();
  }

  readonly #onLost = (): void => {
    this.#stop();
    this.#controller.abort(this.#inner.signal.reason);
  };

  /** Ends the lease if the clock says that the invocation is over: timers may be late. */
  #settle(): void {
    if (!this.#isHeld || this.#limits.leftMs() > 0) return;
    this.#stop();
    this.#controller.abort(new LeaseLostError(this.name, "max-hold"));
    this.#inner.release().catch(() => {});
  }

  #stop(): void {
    this.#isHeld = false;
    this.#cancelEnd();
    this.#cancelRenewal();
    this.#inner.signal.removeEventListener("abort", this.#onLost);
  }

  /**
   * A renewal may be retried or executed late, though not after the end of the lease that it renews.
   * Even then it must not reach beyond the invocation. It may reach into the margin, so that the
   * lease ends with the invocation's time and not before.
   */
  #boundMs(ttlMs: number): number {
    const { leftMs, remainingMs } = this.#limits;
    const endMs = (leftMs() + remainingMs()) / 2;
    const lateMs = remainingMs() - servedMs(this.#inner);
    return Math.floor(Math.min(ttlMs, endMs, lateMs));
  }

  /**
   * Timers may fire early by a fraction of a ms, and late by the time for which a process was frozen.
   */
  #arm(): void {
    this.#cancelEnd = this.#clock.schedule(() => {
      this.#settle();
      if (this.#isHeld) this.#arm();
    }, Math.min(Math.max(1, this.#limits.leftMs()), MAX_ARM_MS));
  }

  /**
   * Renews after a third of the lease, as the lease engine does; that one would exceed the
   * invocation.
   */
  #renewLater(): void {
    this.#cancelRenewal = this.#clock.schedule(async () => {
      await this.renew().catch(() => {}); // the signal reports a loss
      if (this.#isHeld) this.#renewLater();
    }, Math.max(MIN_DELAY_MS, this.#inner.remainingMs / 3));
  }
}
