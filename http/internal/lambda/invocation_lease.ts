import type { Lease, LockMode } from "../../../core/contract/distributed_lock.ts";
import { type Clock, SYSTEM_CLOCK, ttlLasting } from "../../../core/time/clock.ts";
import { LeaseLostError } from "../../../core/contract/errors.ts";
import { MIN_TTL_MS } from "../../../core/contract/options.ts";

/** Shortest time between two renewals, in ms. */
const MIN_DELAY_MS = 5;

/** An instance that wakes up from a freeze checks the clock within this time, in ms. */
const MAX_ARM_MS = 100;

/**
 * A lease that is lost (`"max-hold"`) when its invocation has no time left, even if the process was
 * frozen and its timers did not run. No renewal prolongs the lease beyond the end of the invocation
 * by more than 10 ms, not even one that the service executes late, or one that is retried.
 */
export class InvocationLease implements Lease {
  readonly name: string;
  readonly ownerId: string;
  readonly mode: LockMode;
  readonly fencingToken: bigint;
  readonly #inner: Lease;
  readonly #killedInMs: () => number;
  readonly #marginMs: number;
  readonly #clock: Clock;
  readonly #controller = new AbortController();
  readonly #ttlMs: number;
  /** How long in ms before the end of the invocation the server drops the lease, at the latest. */
  #spareMs: number;
  /** The renewal under way. Never rejects. */
  #renewing: Promise<void> | null = null;
  #cancelEnd = () => {};
  #cancelRenewal = () => {};
  #isHeld = true;

  /**
   * @param killedInMs Returns how long in ms it is until Lambda kills the invocation, by the wall clock.
   * @param marginMs How much of that, in ms, is reserved: the lease may not be used then.
   * @param renews Whether the lease must be renewed: it ends by its TTL.
   */
  constructor(
    inner: Lease,
    killedInMs: () => number,
    marginMs: number,
    renews: boolean,
    clock: Clock = SYSTEM_CLOCK,
  ) {
    this.name = inner.name;
    this.ownerId = inner.ownerId;
    this.mode = inner.mode;
    this.fencingToken = inner.fencingToken;
    this.#inner = inner;
    this.#killedInMs = killedInMs;
    this.#marginMs = marginMs;
    this.#clock = clock;
    this.#ttlMs = inner.remainingMs;
    this.#spareMs = killedInMs() - ttlLasting(inner.remainingMs);
    if (inner.signal.aborted) this.#onLost();
    if (!this.#isHeld) return;
    inner.signal.addEventListener("abort", this.#onLost);
    this.#arm();
    if (renews) this.#renewLater();
  }

  get signal(): AbortSignal {
    this.#settle();
    // The inner getter checks the clock: it finds a lost lease even if no timer has fired yet.
    if (this.#isHeld && this.#inner.signal.aborted) this.#onLost();
    return this.#controller.signal;
  }

  get remainingMs(): number {
    this.#settle();
    if (!this.#isHeld) return 0;
    return Math.max(0, Math.min(this.#inner.remainingMs, this.#leftMs()));
  }

  get isHeld(): boolean {
    return this.remainingMs > 0;
  }

  throwIfLost(): void {
    this.#throwIfOver();
    this.#inner.throwIfLost();
  }

  async renew(ttlMs: number = this.#ttlMs): Promise<void> {
    // One at a time: how long the next one may ask for depends on the answer.
    while (this.#renewing !== null) await this.#renewing;
    this.#throwIfOver();
    let limitMs = this.#limitMs(ttlMs);
    if (limitMs < MIN_TTL_MS || limitMs <= this.#inner.remainingMs) {
      if (this.#inner.isHeld) return;
      limitMs = MIN_TTL_MS; // only for a proof, after a freeze
    }
    const renewed = this.#inner.renew(limitMs);
    this.#renewing = renewed.then(() => this.#onRenewed(limitMs), () => {}).finally(() =>
      this.#renewing = null
    );
    try {
      await renewed;
    } finally {
      this.#throwIfOver(); // reports the loss; otherwise the caller would see "released"
    }
  }

  async release(): Promise<boolean> {
    this.#settle();
    this.#stop();
    return await this.#inner.release();
  }

  /** The members that logs may show: the owner id is a secret, and JSON has no big integers. */
  toJSON(): Record<string, unknown> {
    const { name, fencingToken, remainingMs } = this;
    return { name, fencingToken: String(fencingToken), remainingMs };
  }

  [Symbol.for("nodejs.util.inspect.custom")](): Record<string, unknown> {
    return this.toJSON();
  }

  /** Releases the lock. Never rejects, as the disposal of every lease. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.release().catch(() => {});
  }

  /** How long in ms the invocation may still use the lease. */
  #leftMs(): number {
    return this.#killedInMs() - this.#marginMs;
  }

  /** Throws if the invocation has no time left, or if the lease was lost before. */
  #throwIfOver(): void {
    this.#settle();
    this.#controller.signal.throwIfAborted();
  }

  readonly #onLost = (): void => {
    this.#stop();
    this.#controller.abort(this.#inner.signal.reason);
  };

  /** Ends the lease if the clock shows that no time is left: timers may be late. */
  #settle(): void {
    if (!this.#isHeld || this.#leftMs() > 0) return;
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
   * The TTL in ms that a renewal may ask for. A renewal may be executed late, at the latest when the server drops
   * the lease; even then the new lease must end before the invocation is killed (`#spareMs`). It may last into
   * the reserved margin (`endMs`), so that it does not expire before the time in which it may be used is over.
   */
  #limitMs(ttlMs: number): number {
    const endMs = this.#killedInMs() - this.#marginMs / 2;
    return Math.floor(Math.min(ttlMs, endMs, this.#spareMs));
  }

  /** A renewal of `ttlMs` is answered: the server keeps the lease for so long from now, if not for longer. */
  #onRenewed(ttlMs: number): void {
    this.#spareMs = Math.min(this.#spareMs, this.#killedInMs() - ttlMs);
  }

  /** Checks the clock until the end: timers may be a fraction of a ms early, or late after a freeze. */
  #arm(): void {
    this.#cancelEnd = this.#clock.schedule(() => {
      this.#settle();
      if (this.#isHeld) this.#arm();
    }, Math.min(Math.max(1, this.#leftMs()), MAX_ARM_MS));
  }

  /** After a third of the lease, as the engine does. That must not renew here: it would outlast the invocation. */
  #renewLater(): void {
    this.#cancelRenewal = this.#clock.schedule(async () => {
      await this.renew().catch(() => {}); // the signal reports a loss
      if (this.#isHeld) this.#renewLater();
    }, Math.max(MIN_DELAY_MS, this.#inner.remainingMs / 3));
  }
}
