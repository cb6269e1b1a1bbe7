/**
 * How long one call keeps trying while its service does not answer. Each strategy classifies its own
 * failures.
 *
 * @module
 */
import { abortable } from "./abort.ts";
import { type Clock, pause } from "./clock.ts";
import { LockUnavailableError } from "./errors.ts";

/** Pause in ms before a failed request is sent again. */
export const RETRY_MS = 50;

/** How a call has to treat a failed request. */
export interface Failure {
  /**
   * - `"retry"`: the same request may succeed a little later;
   * - `"restart"`: this request cannot succeed, but the whole call may, for instance in a new session;
   * - `"refused"`: the service refuses, and will refuse again;
   * - `"foreign"`: not a failure of the service, for instance a bug in a program.
   */
  readonly kind: "retry" | "restart" | "refused" | "foreign";
  /**
   * Whether the failure is an answer that ends the outage. Not every answer does: a Redis that is
   * still loading its data answers, but is of no use yet.
   */
  readonly endsOutage: boolean;
  /** Whether the service answered, and refused. Left out, this is so if `kind` is `"refused"`. */
  readonly isRefusal?: boolean;
  /** Why, and what to do, as the end of an error message: `"its memory is full (OOM)"`. No secrets. */
  readonly reason: string;
}

/** Options of {@linkcode OutageBudget}. */
export interface OutageBudgetOptions {
  readonly clock: Clock;
  /** The service, for error messages: `"Redis"`. */
  readonly service: string;
  readonly lockName: string;
  /** How long, in ms, an outage may last before the call gives up. */
  readonly unavailableAfterMs: number;
  /** Ends the call: it aborts with the caller's signal and at disposal. */
  readonly signal: AbortSignal;
  /** Decides how to treat a failure. */
  readonly classify: (error: unknown) => Failure;
  /** Why the connection is down; `undefined` while it is up. It explains a failure that names no code. */
  readonly connectionError?: () => unknown;
}

/**
 * The time that one call may spend in one outage. An outage begins when the first request is sent that
 * gets no answer, and ends with the next answer: waiting in a queue costs nothing.
 */
export class OutageBudget {
  readonly #options: OutageBudgetOptions;
  /** When the outage began, in monotonic ms; `null` while the service answers. */
  #outageSinceMs: number | null = null;
  /** The last failure of this outage. It explains more than "no answer in time". */
  #lastFailure: unknown = undefined;

  constructor(options: OutageBudgetOptions) {
    this.#options = options;
  }

  /** Aborts with the caller's signal and at disposal. */
  get signal(): AbortSignal {
    return this.#options.signal;
  }

  /** Notes that the service answered, which ends an outage. */
  answered(): void {
    this.#outageSinceMs = null;
    this.#lastFailure = undefined;
  }

  /**
   * Sends a request again and again until it is answered. Only for requests that may be executed twice
   * (invariant 5).
   *
   * @throws {unknown} The failure, if its kind is not `"retry"`; `signal.reason` if the signal aborts.
   * @throws {LockUnavailableError} If the outage lasts for `unavailableAfterMs`.
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
   * Waits for one answer, but no longer than the rest of the budget. An answer does not end the
   * outage: the caller decides that, by {@linkcode OutageBudget.answered}.
   *
   * @param request The request, which was just sent.
   * @param signal Ends the wait; without it the caller does so by settling `request`.
   * @throws {unknown} As `request` does; when the time runs out, the last failure of this outage or an
   * error; `signal.reason` if the signal aborts.
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
   * Decides after a failure whether the caller may try again: pauses for {@linkcode RETRY_MS} if
   * so, else throws.
   *
   * @param error The failure.
   * @param sentMs When the failed request was sent, in monotonic ms; now unless given.
   * @throws {unknown} The failure itself if it is `"foreign"`; `signal.reason` if the signal aborts.
   * @throws {LockUnavailableError} If the service refuses, or the outage lasts for
   * `unavailableAfterMs`.
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

  /**
   * Checks the budget.
   *
   * @throws {LockUnavailableError} If the outage lasts for `unavailableAfterMs`.
   */
  check(cause?: unknown): void {
    const { clock, unavailableAfterMs } = this.#options;
    if (this.#outageSinceMs === null) return;
    if (clock.now() - this.#outageSinceMs >= unavailableAfterMs) throw this.#unavailable(cause);
  }

  #unavailable(error: unknown): LockUnavailableError {
    const { service, lockName, unavailableAfterMs } = this.#options;
    const { failure, cause } = this.#explain(error);
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

  /** Classifies an error, or the error of the connection if that explains more. */
  #explain(error: unknown): { failure: Failure | null; cause: unknown } {
    const { classify, connectionError } = this.#options;
    const isSilent = error === undefined || error instanceof NoAnswerError;
    const own = { failure: isSilent ? null : classify(error), cause: error };
    const cause = connectionError?.();
    if (cause === undefined || namesCode(own.failure)) return own;
    const failure = classify(cause);
    return isSilent || namesCode(failure) ? { failure, cause } : own;
  }
}

function namesCode(failure: Failure | null): boolean {
  return failure !== null && /\([A-Z][A-Z0-9_]+\)/.test(failure.reason);
}

/** No failure is known: a request was sent, and nothing came back. */
class NoAnswerError extends Error {}
