/**
 * How long one call keeps trying while its service does not answer.
 *
 * @module
 */
import { abortable } from "./abort.ts";
import { type Clock, pause } from "./clock.ts";
import { LockUnavailableError } from "./errors.ts";

/** Pause in ms before a failed request is sent again. */
export const RETRY_MS = 50;

/** What a failure means for the call. */
export interface Failure {
  /**
   * - `"retry"`: the same request may succeed a little later;
   * - `"restart"`: only the whole call may succeed, in a new session for instance;
   * - `"refused"`: the service refuses, and will refuse again;
   * - `"foreign"`: not a failure of the service, a mistake in a program for instance.
   */
  readonly kind: "retry" | "restart" | "refused" | "foreign";
  /** Whether the service is within reach again: it answered, and the answer is of use to the caller. */
  readonly endsOutage: boolean;
  /** Whether the service answered, and refused. Left out, this is so if `kind` is `"refused"`. */
  readonly isRefusal?: boolean;
  /** Why, and what to do, as the end of an error message: `"its memory is full (OOM)"`. No secrets. */
  readonly reason: string;
}

/** What a budget needs. */
export interface OutageBudgetOptions {
  readonly clock: Clock;
  /** The service, for error messages: `"Redis"`. */
  readonly service: string;
  readonly lockName: string;
  /** How long in ms the service may be out of reach. */
  readonly unavailableAfterMs: number;
  /** Ends the call: the caller's signal, and disposal. */
  readonly signal: AbortSignal;
  /** Tells what a failure means. */
  readonly classify: (error: unknown) => Failure;
}

/**
 * The time that one call may spend without an answer. An outage begins when the first request is sent
 * that gets no answer, and ends with the next answer.
 */
export class OutageBudget {
  readonly #options: OutageBudgetOptions;
  /** When the outage began, in monotonic ms; `null` while the service answers. */
  #outageSinceMs: number | null = null;
  /** The last failure of this outage: it says more than that the time is over. */
  #lastFailure: unknown = undefined;

  constructor(options: OutageBudgetOptions) {
    this.#options = options;
  }

  /** Ends the call: the caller's signal, and disposal. */
  get signal(): AbortSignal {
    return this.#options.signal;
  }

  /** The service answered: the outage, if there was one, is over. */
  answered(): void {
    this.#outageSinceMs = null;
    this.#lastFailure = undefined;
  }

  /**
   * Sends a request until it is answered. Only for requests that may be executed twice.
   *
   * @throws {unknown} The failure, if it is not of the kind `"retry"`; `signal.reason` if it aborts.
   * @throws {LockUnavailableError} If the outage lasts too long.
   */
  async ask<T>(request: () => Promise<T>): Promise<T> {
    const { clock, signal, classify } = this.#options;
    for (;;) {
      signal.throwIfAborted();
      const sentMs = clock.now();
      try {
        const answer = await abortable(request(), signal);
        this.answered();
        return answer;
      } catch (error) {
        const { kind, endsOutage } = classify(error);
        if (endsOutage) this.answered();
        if (kind !== "retry") throw error;
        await this.recover(error, sentMs);
      }
    }
  }

  /**
   * Waits for one answer, but no longer than the outage may last. With `signal` the wait also ends when
   * that aborts; without it the caller ends the wait itself.
   */
  settle<T>(request: Promise<T>, signal?: AbortSignal): Promise<T> {
    const { clock, unavailableAfterMs } = this.#options;
    this.#outageSinceMs ??= clock.now();
    const leftMs = this.#outageSinceMs + unavailableAfterMs - clock.now();
    return new Promise((resolve, reject) => {
      const end = () => {
        cancel();
        signal?.removeEventListener("abort", abort);
      };
      const fail = (error: unknown) => (end(), reject(error));
      const abort = () => fail(signal!.reason);
      const timedOut = () => fail(this.#lastFailure ?? new NoAnswerError("No answer in time"));
      const cancel = clock.schedule(timedOut, leftMs);
      signal?.addEventListener("abort", abort);
      request.then((value) => (end(), resolve(value)), fail);
      if (signal?.aborted) abort();
    });
  }

  /**
   * Pauses after a failure, so that the caller can try again.
   *
   * @param error The failure.
   * @param sentMs When the failed request was sent, in monotonic ms.
   * @throws {unknown} The failure itself if it is `"foreign"`; `signal.reason` if it aborts.
   * @throws {LockUnavailableError} If the service refuses, or the outage lasts too long.
   */
  async recover(error: unknown, sentMs: number = this.#options.clock.now()): Promise<void> {
    const { clock, signal, classify } = this.#options;
    signal.throwIfAborted();
    const { kind } = classify(error);
    if (kind === "foreign") throw error;
    if (kind === "refused") throw this.#unavailable(error);
    this.#outageSinceMs ??= sentMs;
    this.#lastFailure = error;
    this.check(error);
    await pause(clock, RETRY_MS, signal);
  }

  /** Throws a {@linkcode LockUnavailableError} if the outage lasts too long. */
  check(cause?: unknown): void {
    const { clock, unavailableAfterMs } = this.#options;
    if (this.#outageSinceMs === null) return;
    if (clock.now() - this.#outageSinceMs >= unavailableAfterMs) throw this.#unavailable(cause);
  }

  #unavailable(cause: unknown): LockUnavailableError {
    const { service, lockName, unavailableAfterMs, classify } = this.#options;
    const isSilent = cause === undefined || cause instanceof NoAnswerError;
    const failure = isSilent ? null : classify(cause);
    const reason = failure?.reason ?? `it has not answered in time for ${unavailableAfterMs} ms`;
    const isRefusal = failure?.isRefusal ?? failure?.kind === "refused";
    return new LockUnavailableError(
      `Cannot ${isRefusal ? "use" : "reach"} ${service} for lock ${
        JSON.stringify(lockName)
      }: ${reason}`,
      lockName,
      cause === undefined ? {} : { cause },
    );
  }
}

/** No failure is known: a request was sent, and nothing came back. */
class NoAnswerError extends Error {}
