/**
 * Ends a wait for a lock: after a time limit, or earlier when one of several signals aborts.
 *
 * @module
 */
import { type Cancel, SYSTEM_CLOCK } from "../../core/time/clock.ts";

/** Limits one wait. Disposal cancels the timer and removes the listeners. */
export class WaitLimit implements Disposable {
  readonly #controller = new AbortController();
  readonly #ends: readonly AbortSignal[];
  readonly #cancel: Cancel;
  #hasTimedOut = false;

  /**
   * @param waitMs The time limit in ms; 0 for none.
   * @param ends Signals that also end the wait.
   */
  constructor(waitMs: number, ends: readonly AbortSignal[]) {
    this.#ends = ends;
    for (const end of ends) end.addEventListener("abort", this.#end);
    this.#cancel = waitMs === 0 ? () => {} : SYSTEM_CLOCK.schedule(this.#timeOut, waitMs);
    if (ends.some(({ aborted }) => aborted)) this.#end();
  }

  /** Aborts when the wait must end: pass it to `acquire()`. */
  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  /** True if the time limit ended the wait; false if a signal did, or it goes on. */
  get hasTimedOut(): boolean {
    return this.#hasTimedOut;
  }

  /** Whether `error` comes from {@linkcode WaitLimit.signal}: the wait was ended, and nothing failed. */
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
    this.#controller.abort(new DOMException("The time limit of the wait is over", "TimeoutError"));
  };

  readonly #end = (): void => {
    this.#controller.abort(new DOMException("The wait was aborted", "AbortError"));
  };
}
