/**
 * How long a call bears with a server that does not answer.
 *
 * @module
 */
import { type Clock, pause } from "../core/clock.ts";
import { LockUnavailableError } from "../core/errors.ts";
import { refusalOf } from "./protocol/replies.ts";

/** How long to wait in ms before a command is sent again that failed at once. */
export const RETRY_MS = 50;

/** The patience of one call. */
export class Patience {
  readonly #clock: Clock;
  readonly #name: string;
  readonly #unavailableAfterMs: number;
  readonly #signal: AbortSignal;
  /** When the server last answered, in monotonic ms. */
  #contactMs: number;

  constructor(clock: Clock, name: string, unavailableAfterMs: number, signal: AbortSignal) {
    this.#clock = clock;
    this.#name = name;
    this.#unavailableAfterMs = unavailableAfterMs;
    this.#signal = signal;
    this.#contactMs = clock.now();
  }

  /** The server answered: patience starts anew. */
  answered(): void {
    this.#contactMs = this.#clock.now();
  }

  /**
   * The outcome of a request; rejects if patience ends before, or if `signal` aborts: the call's own
   * unless disposal wakes it by itself, as many listeners on one signal are slow.
   */
  settle<T>(request: Promise<T>, signal: AbortSignal | undefined = undefined): Promise<T> {
    const leftMs = this.#contactMs + this.#unavailableAfterMs - this.#clock.now();
    return new Promise((resolve, reject) => {
      const end = () => {
        cancel();
        signal?.removeEventListener("abort", abort);
      };
      const fail = (error: unknown) => (end(), reject(error));
      const abort = () => fail(signal!.reason);
      const cancel = this.#clock.schedule(() => fail(new Error("No answer in time")), leftMs);
      signal?.addEventListener("abort", abort);
      request.then((value) => (end(), resolve(value)), fail);
      if (signal?.aborted) abort();
    });
  }

  /** Waits a moment after a failure that may pass; rejects if it will not, or patience ends. */
  async bear(error: unknown): Promise<void> {
    this.#signal.throwIfAborted();
    const refusal = refusalOf(error);
    if (refusal !== null && !refusal.passing) throw this.#unavailable(error);
    this.check(error);
    await pause(this.#clock, RETRY_MS, this.#signal);
  }

  /** Throws if the server has not answered for too long. */
  check(cause?: unknown): void {
    if (this.#clock.now() - this.#contactMs < this.#unavailableAfterMs) return;
    throw this.#unavailable(cause);
  }

  #unavailable(cause: unknown): LockUnavailableError {
    const refusal = refusalOf(cause);
    const why = refusal === null ? "it does not answer in time" : `it refuses (${refusal.code})`;
    return new LockUnavailableError(
      `Cannot ask Redis for the lock ${JSON.stringify(this.#name)}: ${why}`,
      this.#name,
      cause === undefined ? {} : { cause },
    );
  }
}
