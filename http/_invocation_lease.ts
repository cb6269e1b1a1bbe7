/**
 * A lease that ends with the invocation of a function.
 *
 * @module
 */
import type { Lease } from "../core/distributed_lock.ts";
import { LeaseLostError } from "../core/errors.ts";
import { MIN_TTL_MS } from "../core/validate.ts";

/** What bounds the lease. */
export interface InvocationLimits {
  /** How long in ms the invocation may still use it, by the wall clock. */
  leftMs(): number;
  /** Whether it must be renewed. */
  readonly renews: boolean;
}

/**
 * A lease that is lost ("max-hold") when its invocation has no time left, also when the process was
 * frozen meanwhile and its timers stood still. Renewals never reach beyond the invocation.
 */
export class InvocationLease implements Lease {
  readonly #inner: Lease;
  readonly #limits: InvocationLimits;
  readonly #controller = new AbortController();
  readonly #ttlMs: number;
  #timer: ReturnType<typeof setTimeout> | undefined;
  #renewal: ReturnType<typeof setTimeout> | undefined;
  #isHeld = true;

  constructor(inner: Lease, limits: InvocationLimits) {
    this.#inner = inner;
    this.#limits = limits;
    this.#ttlMs = inner.remainingMs;
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
    return this.#controller.signal;
  }

  get remainingMs(): number {
    this.#settle();
    if (!this.#isHeld) return 0;
    return Math.min(this.#inner.remainingMs, this.#limits.leftMs());
  }

  throwIfLost(): void {
    this.#settle();
    this.#controller.signal.throwIfAborted();
    this.#inner.throwIfLost();
  }

  async renew(ttlMs: number = this.#ttlMs): Promise<void> {
    this.throwIfOver();
    const boundMs = Math.floor(Math.min(ttlMs, this.#limits.leftMs()));
    // What is granted already cannot be prolonged beyond the end of the invocation.
    if (boundMs >= MIN_TTL_MS && boundMs > this.#inner.remainingMs) {
      await this.#inner.renew(boundMs);
    } else this.#inner.throwIfLost();
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

  /** The invocation's end is known by the clock, whatever timers do. */
  #settle(): void {
    if (!this.#isHeld || this.#limits.leftMs() > 0) return;
    this.#stop();
    this.#controller.abort(new LeaseLostError(this.name, "max-hold"));
    this.#inner.release().catch(() => {});
  }

  #stop(): void {
    this.#isHeld = false;
    clearTimeout(this.#timer);
    clearTimeout(this.#renewal);
    this.#inner.signal.removeEventListener("abort", this.#onLost);
  }

  /** Timers may fire early by a fraction of a ms. */
  #arm(): void {
    this.#timer = setTimeout(() => {
      this.#settle();
      if (this.#isHeld) this.#arm();
    }, Math.max(1, this.#limits.leftMs()));
  }

  /** At a third of the TTL, as the lease engine does; it is not to renew beyond the invocation. */
  #renewLater(): void {
    this.#renewal = setTimeout(async () => {
      await this.renew().catch(() => {}); // a loss is told by the signal
      if (this.#isHeld) this.#renewLater();
    }, this.#ttlMs / 3);
  }
}
