import { unwatchAbort, watchAbort } from "./abort_watch.ts";
import { type Clock, pause } from "./clock.ts";
import { LockSetupError, LockUnavailableError } from "../contract/errors.ts";

/** Pause in ms before a failed request is sent again. */
export const RETRY_MS = 50;

/** The wait for an answer is timed in this many steps. */
const STEPS = 10;

/** How a call has to treat a failed request. */
export interface Failure {
  /**
   * - `"retry"`: the same request may succeed a little later;
   * - `"restart"`: this request cannot succeed, but the whole call may, for instance in a new session;
   * - `"refused"`: the service refuses, and will until somebody changes a setting or a permission;
   * - `"foreign"`: not a failure of the service, for instance a bug in a program.
   */
  readonly kind: "retry" | "restart" | "refused" | "foreign";
  /** Whether it is an answer that ends the outage. That of a Redis which is still loading its data does not. */
  readonly endsOutage: boolean;
  /** Whether the service answered, and refused. Left out, this is so if `kind` is `"refused"`. */
  readonly isRefusal?: boolean;
  /** Why, and what to do, as the end of an error message: `"its memory is full (OOM)"`. No secrets. */
  readonly reason: string;
  /** Whether the reason is only that the command failed, or that there is no connection. */
  readonly isVague?: boolean;
}

/** What the calls of one instance share. */
export interface OutageTerms {
  readonly clock: Clock;
  /** The service, for error messages: `"Redis"`. */
  readonly service: string;
  /** How long, in ms, an outage may last before a call gives up. */
  readonly unavailableAfterMs: number;
  readonly classify: (error: unknown) => Failure;
  readonly client?: {
    /** Why the connection is down, if that is known: explains a failure that says nothing itself. */
    readonly connectionError?: unknown;
    /**
     * When the service last answered any call of this process, in monotonic ms, if it answers in the order
     * of the requests: one that waits behind others is in no outage while those are answered.
     */
    readonly lastAnswerMs?: number;
  };
}

/**
 * The time that one call may spend in one outage. An outage begins when the first request is sent that
 * gets no answer, and ends with the next answer: waiting in a queue costs nothing. While the event loop
 * is blocked, requests are not sent and answers are not read, so that time does not count either.
 */
export class OutageBudget {
  /** Ends the waits of the call when it aborts. */
  readonly signal: AbortSignal;
  /** When the outage began, in monotonic ms; `null` while the service answers. Only the budget writes it. */
  outageSinceMs: number | null = null;
  readonly #terms: OutageTerms;
  readonly #lockName: string;
  readonly #unavailableAfterMs: number;
  /** The last failure of this outage. It explains more than "no answer in time". */
  #lastFailure: unknown = undefined;

  /** @param limitMs How long, in ms, an outage of this call may last at most; it may be less. */
  constructor(terms: OutageTerms, lockName: string, signal: AbortSignal, limitMs = Infinity) {
    this.#terms = terms;
    this.#lockName = lockName;
    this.signal = signal;
    this.#unavailableAfterMs = Math.min(limitMs, terms.unavailableAfterMs);
  }

  /** An outage began before the next request is sent. */
  beganAt(sinceMs: number): void {
    this.outageSinceMs ??= sinceMs;
  }

  answered(): void {
    this.outageSinceMs = null;
    this.#lastFailure = undefined;
  }

  /**
   * Sends a request again and again until it is answered. Only for requests that may be executed twice (invariant 5).
   *
   * @throws {unknown} The failure, if its kind is not `"retry"`; `signal.reason` if the signal aborts.
   * @throws {LockUnavailableError} If the outage lasts for `unavailableAfterMs`.
   */
  async ask<T>(request: () => Promise<T>): Promise<T> {
    const { classify } = this.#terms;
    const { signal } = this;
    for (;;) {
      signal.throwIfAborted();
      try {
        const answer = await this.settle(request());
        this.answered();
        return answer;
      } catch (error) {
        const { kind, endsOutage } = classify(error);
        if (endsOutage) this.answered();
        if (kind !== "retry") throw error;
        await this.recover(error);
      }
    }
  }

  /**
   * Waits for the answer to a request that was just sent, but no longer than the rest of the budget: then it
   * rejects with the last failure of this outage or an error. An answer does not end the outage: the caller
   * decides that, by {@linkcode OutageBudget.answered}. The signal ends the wait, too.
   */
  settle<T>(request: Promise<T>): Promise<T> {
    const { signal } = this;
    const { promise, resolve, reject } = Promise.withResolvers<T>();
    const fail = (error: unknown, hasFailed = false) => {
      endTimer(hasFailed);
      unwatchAbort(signal, listener);
      reject(error);
    };
    const endTimer = this.timeAnswer(fail);
    const listener = { onAborted: () => fail(signal.reason) };
    watchAbort(signal, listener);
    request.then((answer) => {
      endTimer(false);
      unwatchAbort(signal, listener);
      resolve(answer);
    }, (error) => fail(error, true));
    if (signal.aborted) listener.onAborted();
    return promise;
  }

  /**
   * Calls `onOver` with the last failure of this outage, or an error, if the budget is used up before the answer to a
   * request that was just sent. The returned function must be called when the caller waits no more; later calls do
   * nothing.
   */
  timeAnswer(onOver: (error: unknown) => void): (hasFailed: boolean) => void {
    const { clock } = this.#terms;
    const unavailableAfterMs = this.#unavailableAfterMs;
    let stepMs = clock.now();
    let answerMs = stepMs;
    this.outageSinceMs ??= stepMs;
    const spentMs = stepMs - this.outageSinceMs;
    let delayMs = Math.min(unavailableAfterMs - spentMs, unavailableAfterMs / STEPS);
    const onStep = () => {
      const nowMs = clock.now();
      answerMs = this.#skip(nowMs - stepMs - Math.max(0, delayMs), answerMs);
      const leftMs = (this.outageSinceMs ?? nowMs) + unavailableAfterMs - nowMs;
      if (leftMs <= 0) return onOver(this.#lastFailure ?? new NoAnswerError("No answer in time"));
      stepMs = nowMs;
      delayMs = Math.min(leftMs, unavailableAfterMs / STEPS);
      cancel = clock.schedule(onStep, delayMs);
    };
    let cancel = clock.schedule(onStep, delayMs);
    let isOver = false;
    return (hasFailed) => {
      if (isOver) return;
      isOver = true;
      cancel();
      if (hasFailed) this.#skip(0, answerMs);
    };
  }

  /**
   * Time that is no outage does not count: while the event loop was blocked, or others were answered. Takes and
   * returns when others were last answered, in monotonic ms.
   */
  #skip(blockedMs: number, answerMs: number): number {
    const { clock, client } = this.#terms;
    const lastMs = Math.max(answerMs, client?.lastAnswerMs ?? answerMs);
    const skippedMs = Math.max(blockedMs, lastMs - answerMs);
    if (this.outageSinceMs !== null && skippedMs > 0) {
      this.outageSinceMs = Math.min(this.outageSinceMs + skippedMs, clock.now());
    }
    return lastMs;
  }

  /** Pauses for {@linkcode RETRY_MS} after a failure, or throws as {@linkcode OutageBudget.judge} does. */
  async recover(error: unknown): Promise<void> {
    const { signal } = this;
    signal.throwIfAborted();
    this.judge(error);
    await pause(this.#terms.clock, RETRY_MS, signal);
  }

  /** Throws unless the caller may try again. The caller must check its signal, and pause, first. */
  judge(error: unknown): void {
    const { classify, clock } = this.#terms;
    if (error instanceof NoAnswerError) throw this.unavailable(error);
    const { kind } = classify(error);
    if (kind === "foreign") throw error;
    if (kind === "refused") throw this.unavailable(error);
    this.outageSinceMs ??= clock.now();
    this.#lastFailure = error;
    this.check(error);
  }

  check(cause?: unknown): void {
    if (this.outageSinceMs === null) return;
    const lastedMs = this.#terms.clock.now() - this.outageSinceMs;
    if (lastedMs >= this.#unavailableAfterMs) throw this.unavailable(cause);
  }

  /** Makes the error for a call that gives up. */
  unavailable(cause?: unknown): LockSetupError | LockUnavailableError {
    const { service } = this.#terms;
    const lockName = this.#lockName;
    const { error, reason, isRefusal, isLasting } = this.#explain(cause);
    const verb = isRefusal ? "use" : "reach";
    const message = `Cannot ${verb} ${service} for lock ${JSON.stringify(lockName)}: ${reason}`;
    const options = causeBehind(reason, error);
    return isLasting
      ? new LockSetupError(message, lockName, options)
      : new LockUnavailableError(message, lockName, options);
  }

  /** Finds the error that explains most: the failure, or why the connection is down. */
  #explain(cause: unknown) {
    const { classify, client } = this.#terms;
    const isSilent = cause === undefined || cause instanceof NoAnswerError;
    const failure = isSilent ? null : classify(cause);
    const known = isSilent || failure?.isVague ? client?.connectionError : undefined;
    if (known !== undefined) {
      const { kind, reason } = classify(known);
      const isLasting = kind === "refused";
      return { error: known, reason, isRefusal: isLasting, isLasting };
    }
    const reason = failure?.reason ??
      `it has not answered in time for ${this.#unavailableAfterMs} ms`;
    const isLasting = failure?.kind === "refused";
    return { error: cause, reason, isRefusal: failure?.isRefusal ?? isLasting, isLasting };
  }
}

const MAX_CAUSES = 5;

/**
 * The options of an error whose message gives a reason: its cause is what stands behind the last error of
 * the chain whose message is a part of the reason. Else a log would say the same two or three times.
 */
function causeBehind(reason: string, error: unknown): ErrorOptions {
  let cause = error;
  let each = error;
  for (let i = 0; i < MAX_CAUSES && each instanceof Error; i++) {
    const { message } = each;
    each = each.cause;
    if (message !== "" && reason.includes(message)) cause = each;
  }
  return cause === undefined ? {} : { cause };
}

/**
 * No failure is known: nothing came back for `unavailableAfterMs`, to this request or to earlier ones, behind
 * which it could not be sent. A call that gets it gives up.
 */
export class NoAnswerError extends Error {}
