import { type Cancel, type Clock, type Instant, instant } from "../time/clock.ts";
import type { LeaseRequest } from "./grant.ts";

/**
 * One renewal or release. It has failed if it is not answered in a sixth of the time for which the lease was
 * granted (20 ms to 2 s), counted from when it was sent; then the next one is sent. What waits in this process
 * for its turn has not failed: to send it again would only make the queue longer.
 */
export class Attempt implements LeaseRequest {
  readonly byMs: number;
  /** When its turn came, if it had to wait for it. */
  turn: Instant | null = null;
  readonly #clock: Clock;
  readonly #limitMs: number;
  readonly #leftMs: number;
  readonly #isWanted: () => boolean;
  /** When it ends in any case, in monotonic ms. Known if it has to wait for its turn. */
  #endMs = Infinity;
  /** Takes it out of the queue; `null` unless it waits there. */
  #withdraw: (() => void) | null = null;
  #end: () => void = () => {};
  #cancelTimer: Cancel | null = null;

  /** @param leftMs How long, in ms, it may take in all, with its wait. */
  constructor(
    clock: Clock,
    grantedMs: number,
    byMs: number,
    leftMs: number = Infinity,
    isWanted: () => boolean = () => true,
  ) {
    this.#clock = clock;
    this.#limitMs = Math.min(Math.max(grantedMs / 6, 20), 2_000, leftMs);
    this.byMs = byMs;
    this.#leftMs = leftMs;
    this.#isWanted = isWanted;
  }

  get isQueued(): boolean {
    return this.#withdraw !== null;
  }

  onQueued(withdraw: () => void): void {
    this.#withdraw = withdraw;
    this.#endMs = this.#clock.now() + this.#leftMs;
  }

  onTurn(): boolean {
    this.#withdraw = null;
    if (!this.#isWanted()) return false;
    this.turn = instant(this.#clock);
    this.#cancelTimer?.();
    const leftMs = Math.min(this.#limitMs, this.#endMs - this.turn.nowMs);
    this.#cancelTimer = this.#clock.schedule(this.#end, leftMs);
    return true;
  }

  /** Takes the request back if it was not sent yet: then it is rejected. Returns whether it was still unsent. */
  withdraw(): boolean {
    this.#withdraw?.();
    return this.#withdraw !== null;
  }

  /**
   * Resolves as `answer`, or with `otherwise` if that rejects, or when the time is over after it was sent. A request
   * that still waits for its turn then is withdrawn, which settles `answer`.
   */
  settle<T>(answer: Promise<T>, otherwise: T): Promise<T> {
    const { promise, resolve } = Promise.withResolvers<T>();
    const end = () => {
      if (!this.withdraw()) resolve(otherwise);
    };
    const isQueued = this.#withdraw !== null;
    const delayMs = isQueued ? this.#leftMs : this.#limitMs;
    const cancel = delayMs === Infinity ? null : this.#clock.schedule(end, delayMs);
    // Usually they stay local: as fields they kept dead objects for so long that a cycle took a quarter more CPU.
    if (isQueued) {
      this.#end = end;
      this.#cancelTimer = cancel;
    }
    const settled = (value: T) => {
      cancel?.();
      if (isQueued) this.#cancelTimer?.();
      resolve(value);
    };
    answer.then(settled, () => settled(otherwise));
    return promise;
  }
}
