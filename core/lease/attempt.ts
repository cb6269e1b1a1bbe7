/**
 * The time limit of one request of a lease. The requests themselves are sent in `lease.ts`.
 *
 * @module
 */
import { type Cancel, type Clock, type Instant, instant } from "../time/clock.ts";
import type { LeaseRequest } from "./grant.ts";

/** How long, in ms, one renewal or release may take before the next one is sent. */
function attemptMs(ttlMs: number): number {
  return Math.min(Math.max(ttlMs / 6, 20), 2_000);
}

/**
 * One renewal or release. It has failed if it is not answered in time, counted from when it was sent. What
 * waits in this process for its turn has not failed: to send it again would only make the queue longer.
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
  #timeOut: () => void = () => {};
  #cancelTimer: Cancel | null = null;

  /**
   * @param byMs See {@linkcode LeaseRequest.byMs}.
   * @param leftMs How long, in ms, it may take in all, with its wait.
   * @param isWanted Whether it is still of use when its turn comes.
   */
  constructor(
    clock: Clock,
    ttlMs: number,
    byMs: number,
    leftMs: number = Infinity,
    isWanted: () => boolean = () => true,
  ) {
    this.#clock = clock;
    this.#limitMs = Math.min(attemptMs(ttlMs), leftMs);
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
    this.#arm(Math.min(this.#limitMs, this.#endMs - this.turn.nowMs));
    return true;
  }

  /** Takes the request back if it was not sent yet: then it fails. */
  withdraw(): void {
    this.#withdraw?.();
    this.#withdraw = null;
  }

  /**
   * Resolves as `answer`, the result of the request, which never rejects; or with `otherwise` when the time is
   * over.
   */
  settle<T>(answer: Promise<T>, otherwise: T): Promise<T> {
    const { promise, resolve } = Promise.withResolvers<T>();
    this.#timeOut = () => resolve(otherwise);
    this.#arm(this.isQueued ? this.#leftMs : this.#limitMs);
    answer.then((value) => {
      this.#cancelTimer?.();
      resolve(value);
    });
    return promise;
  }

  #arm(delayMs: number): void {
    if (delayMs === Infinity) return;
    this.#cancelTimer = this.#clock.schedule(() => {
      this.withdraw();
      this.#timeOut();
    }, delayMs);
  }
}
