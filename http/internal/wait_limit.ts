/**
 * The end of a wait for a lock: a time limit, and signals that end it earlier.
 *
 * @module
 */
import { type Cancel, SYSTEM_CLOCK } from "../../core/clock.ts";

/** Bounds one wait. Disposal cancels the timer and removes the listeners. */
export class WaitLimit implements Disposable {
  readonly #controller = new AbortController();
  readonly #ends: readonly AbortSignal[];
  readonly #cancel: Cancel;
  #hasTimedOut = false;

  /**
   * @param waitMs The time limit in ms; 0 for none.
   * @param ends Signals that end the wait, too.
   */
  constructor(waitMs: number, ends: readonly AbortSignal[]) {
    this.#ends = ends;
    for (const end of ends) end.addEventListener("abort", this.#end);
    this.#cancel = waitMs === 0 ? () => {} : SYSTEM_CLOCK.schedule(this.#timeOut, waitMs);
    if (ends.some(({ aborted }) => aborted)) this.#end();
  }

  /** Aborts at the end of the wait. */
  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  /** True if the time limit ended the wait. */
  get hasTimedOut(): boolean {
    return this.#hasTimedOut;
  }

  /** Whether a wait under {@linkcode WaitLimit.signal} failed because it was ended. */
  hasCaused(error: unknown): boolean {
    return this.signal.aborted && error === this.signal.reason;
  }

  [Symbol.dispose](): void {
    this.#cancel();
    for (const end of this.#ends) end.removeEventListener("abort", this.#end);
  }

  readonly #timeOut = (): void => {
    if (this.signal.aborted) return;
    this.#hasTimedOut = true;
    this.#controller.abort(new DOMException("The wait is over", "TimeoutError"));
  };

  readonly #end = (): void => {
    this.#controller.abort(new DOMException("The wait was ended", "AbortError"));
  };
}
