import type { Lease, LockMode } from "../contract/distributed_lock.ts";
import { LeaseLostError } from "../contract/errors.ts";
import { CallSignal } from "../time/abort_watch.ts";
import type { Cancel, Clock } from "../time/clock.ts";

/** A lease of a user's own lock that is lost at `endMs`, in monotonic ms. For ours: `ManagedLease.limit()`. */
export class LimitedLease implements Lease {
  readonly name: string;
  readonly ownerId: string;
  readonly mode: LockMode;
  readonly fencingToken: bigint;
  readonly #inner: Lease;
  readonly #clock: Clock;
  readonly #endMs: number;
  #cancel!: Cancel;
  readonly #signal: CallSignal;
  #loss: LeaseLostError | null = null;
  #isReleased = false;

  constructor(inner: Lease, endMs: number, clock: Clock) {
    this.#inner = inner;
    this.name = inner.name;
    this.ownerId = inner.ownerId;
    this.mode = inner.mode;
    this.fencingToken = inner.fencingToken;
    this.#clock = clock;
    this.#endMs = endMs;
    this.#arm();
    this.#signal = new CallSignal(inner.signal);
    this.#signal.signal.addEventListener("abort", () => this.#cancel(), { once: true });
  }

  get signal(): AbortSignal {
    this.#checkTime();
    void this.#inner.signal; // reads the clock, and aborts ours at once
    return this.#signal.signal;
  }

  get remainingMs(): number {
    this.#checkTime();
    const leftMs = Math.min(this.#inner.remainingMs, this.#endMs - this.#clock.now());
    return Math.max(0, leftMs);
  }

  get isHeld(): boolean {
    return this.remainingMs > 0;
  }

  throwIfLost(): void {
    this.#throwIfOver();
    this.#inner.throwIfLost();
  }

  async renew(ttlMs?: number): Promise<void> {
    this.#throwIfOver();
    try {
      await this.#inner.renew(ttlMs);
    } finally {
      this.#throwIfOver(); // reports the loss; otherwise the caller would see "released"
    }
  }

  async release(): Promise<boolean> {
    this.#checkTime();
    this.#isReleased = true;
    this.#cancel();
    this.#signal.end();
    const isOurs = await this.#inner.release();
    return isOurs && this.#loss === null;
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

  /** Waits again for what is left: a timer of Node may fire a fraction of a ms early. */
  #arm(): void {
    this.#cancel = this.#clock.schedule(() => {
      if (this.#clock.now() < this.#endMs) this.#arm();
      else this.#checkTime();
    }, this.#endMs - this.#clock.now());
  }

  /** Ends the lease if its time is over: timers may be late. Its lock is freed in the background. */
  #checkTime(): void {
    if (this.#isReleased || this.#clock.now() < this.#endMs) return;
    // The inner getter checks the clock, too: an earlier loss is the one that counts.
    if (this.#loss !== null || this.#inner.signal.aborted) return;
    this.#loss = new LeaseLostError(this.name, "max-hold");
    this.#inner.release().catch(() => {});
    this.#signal.abort(this.#loss);
    this.#signal.end();
  }

  #throwIfOver(): void {
    this.#checkTime();
    if (this.#loss !== null) throw this.#loss;
  }
}
