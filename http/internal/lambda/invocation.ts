/**
 * One invocation of a Lambda function: acquires the lock, runs the handler, and releases the lock before Lambda kills
 * the invocation. Its lease is in `invocation_lease.ts`, what one without a lease ends with in `answer.ts`.
 *
 * @module
 */
import type { DistributedLock, Lease } from "../../../core/contract/distributed_lock.ts";
import { LeaseLostError } from "../../../core/contract/errors.ts";
import { MAX_DURATION_MS, MIN_TTL_MS } from "../../../core/contract/options.ts";
import { SYSTEM_CLOCK, TIMED_OUT, ttlLasting, within } from "../../../core/time/clock.ts";
import { leaseLost, type Problem, problem, unavailable } from "../../shared/problem.ts";
import { type HoldSettings, report } from "../options.ts";
import { acquireForRequest, releaseLease, type RequestLease, runUnderLease } from "../request.ts";
import { endWithProblem, type LambdaResponse } from "./answer.ts";
import { InvocationLease } from "./invocation_lease.ts";

/** Settings of all invocations of a function, as in `LambdaLockOptions`. */
export interface InvocationSettings extends HoldSettings {
  readonly ttlMs: number;
  readonly marginMs: number;
}

export class Invocation {
  readonly #name: string;
  readonly #event: unknown;
  readonly #context: { getRemainingTimeInMillis(): number };
  readonly #settings: InvocationSettings;

  /** @param name The name of the lock. */
  constructor(
    name: string,
    event: unknown,
    context: { getRemainingTimeInMillis(): number },
    settings: InvocationSettings,
  ) {
    this.#name = name;
    this.#event = event;
    this.#context = context;
    this.#settings = settings;
  }

  /**
   * Runs the handler under the lock, and releases the lock before it returns.
   *
   * @param origin The lock; or its factory, whose lock is disposed at the end.
   * @param leases The leases that the invocation has already.
   * @returns The handler's result, or what {@linkcode endWithProblem} returns.
   */
  async run<T>(
    origin: DistributedLock | ((ttlMs: number) => DistributedLock),
    leases: RequestLease[],
    handler: (lease: Lease | undefined) => T | Promise<T>,
  ): Promise<T | LambdaResponse> {
    const leftMs = Math.floor(this.#leftMs());
    const waitMs = Math.min(this.#settings.waitMs, leftMs);
    const requester = { leases, origin };
    if (typeof origin !== "function") return await this.#run(origin, waitMs, requester, handler);
    // The lock may be granted at the end of the wait: its TTL must fit into the time after that.
    const fitMs = Math.max(leftMs - this.#settings.waitMs, Math.floor(leftMs / 2));
    const ttlMs = Math.min(this.#settings.ttlMs, fitMs);
    if (ttlMs < MIN_TTL_MS) return this.#endForTime();
    const lock = origin(ttlMs);
    try {
      return await this.#run(lock, Math.min(waitMs, this.#leftMs() - ttlMs), requester, handler);
    } finally {
      await this.#awaitCleanUp(lock[Symbol.asyncDispose]());
    }
  }

  async #run<T>(
    lock: DistributedLock,
    waitMs: number,
    requester: { readonly leases: RequestLease[]; readonly origin: object },
    handler: (lease: Lease | undefined) => T | Promise<T>,
  ): Promise<T | LambdaResponse> {
    if (this.#leftMs() < MIN_TTL_MS) return this.#endForTime();
    const acquired = await this.#acquire(lock, Math.max(0, Math.floor(waitMs)), requester);
    if (acquired.state === "unlocked") return await handler(undefined);
    if (acquired.state === "failed") return this.#end(acquired.problem, acquired.cause);
    if (acquired.state === "gone") return this.#end(unavailable());
    const { marginMs, holdTimes } = this.#settings;
    const isTimed = lock.capabilities.endsBy === "ttl";
    const isTooLong = isTimed && ttlLasting(acquired.lease.remainingMs) > this.#remainingMs();
    if (this.#leftMs() <= 0 || isTooLong) {
      await this.#awaitCleanUp(acquired.lease.release());
      return this.#endForTime();
    }
    const lease = new InvocationLease(acquired.lease, this.#remainingMs, marginMs, isTimed);
    holdTimes.granted(lease, performance.now());
    return await this.#runUnderLease(lease, handler);
  }

  #endForTime(): LambdaResponse {
    return this.#end(problem("too-little-time", {
      status: 503,
      title: "Too little time left",
      detail:
        "The request was not handled, as too little time was left to hold the lock safely: try again",
    }));
  }

  /** Waits for a clean-up as long as the invocation's time allows. Ignores its failure. */
  async #awaitCleanUp(cleanUp: PromiseLike<unknown>): Promise<unknown> {
    const leftMs = this.#remainingMs() - this.#settings.marginMs / 2;
    return await within(SYSTEM_CLOCK, cleanUp, Math.max(leftMs, 0)).catch(() => {});
  }

  /** How long in ms until Lambda kills the invocation. */
  readonly #remainingMs = (): number => {
    const context = this.#context;
    if (typeof context?.getRemainingTimeInMillis !== "function") {
      throw new TypeError(
        "Cannot tell how much time the invocation has left: pass Lambda's context as second argument",
      );
    }
    const remainingMs = context.getRemainingTimeInMillis();
    // Timers accept no more than this. A value that is not a number counts as no time.
    return remainingMs > 0 ? Math.min(remainingMs, MAX_DURATION_MS) : 0;
  };

  /** How long in ms a lease may still be used: until the reserved time begins. */
  #leftMs(): number {
    return this.#remainingMs() - this.#settings.marginMs;
  }

  #end(problem: Problem, cause?: unknown): LambdaResponse {
    return endWithProblem(this.#event, this.#name, problem, cause);
  }

  /** Acquires the lock; gives up shortly after the reserved time begins, even without an answer. */
  async #acquire(
    lock: DistributedLock,
    waitMs: number,
    requester: { readonly leases: RequestLease[]; readonly origin: object },
  ): ReturnType<typeof acquireForRequest> {
    const late = new AbortController();
    const settings = { ...this.#settings, waitMs, autoRenew: false };
    const timeoutMs = this.#leftMs() + this.#settings.marginMs / 4;
    const waiting = { ...requester, abandoned: late.signal };
    const acquiring = acquireForRequest(lock, this.#name, settings, waiting);
    const result = await within(SYSTEM_CLOCK, acquiring, timeoutMs);
    if (result !== TIMED_OUT) return result;
    const message = `Cannot acquire the lock ${JSON.stringify(this.#name)}: no answer before the ` +
      "invocation's time is over";
    late.abort(new DOMException(message, "TimeoutError"));
    report(this.#settings, late.signal.reason);
    return { state: "gone" };
  }

  async #runUnderLease<T>(
    lease: InvocationLease,
    handler: (lease: Lease) => T | Promise<T>,
  ): Promise<T | LambdaResponse> {
    const result = await runUnderLease(lease, this.#settings, () => handler(lease));
    // A disposed lock is kept until the handler has ended. Nobody waits for that.
    if (result.state === "lost" && isLostByDisposal(result.error)) {
      result.ended.then(() => releaseLease(lease, this.#settings));
    } else {
      const loss = await this.#awaitCleanUp(releaseLease(lease, this.#settings));
      if (result.state === "done" && loss instanceof LeaseLostError) {
        return this.#end(leaseLost(), loss);
      }
    }
    if (result.state === "done") return result.value;
    if (result.state === "failed") throw result.error;
    report(this.#settings, result.error);
    return this.#end(leaseLost(), result.error);
  }
}

function isLostByDisposal(error: unknown): boolean {
  return error instanceof LeaseLostError && error.reason === "disposed";
}
