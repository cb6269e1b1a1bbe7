/**
 * One invocation of a Lambda function: acquires the lock, runs the handler and releases, in time.
 *
 * @module
 */
import { SYSTEM_CLOCK, TIMED_OUT, within } from "../../core/clock.ts";
import type { DistributedLock, Lease } from "../../core/distributed_lock.ts";
import { MAX_DURATION_MS, MIN_TTL_MS } from "../../core/validate.ts";
import { InvocationLease, servedMs } from "./invocation_lease.ts";
import { endWithProblem, type LambdaResponse } from "./invocation_problem.ts";
import { acquireForRequest, type AcquireResult } from "./acquire.ts";
import { type HoldSettings, report } from "./options.ts";
import { leaseLost, type Problem, problem, unavailable } from "./problem.ts";
import { runUnderLease } from "./run_under_lease.ts";

/** Settings of all invocations of a function. */
export interface InvocationSettings extends HoldSettings {
  /** The longest TTL of a lock of its own, in ms. */
  readonly ttlMs: number;
  /** The part of its time, in ms, that is reserved for the release and the answer. */
  readonly marginMs: number;
}

/** The input of one invocation. */
export interface InvocationParts {
  /** The name of the lock. */
  readonly name: string;
  readonly event: unknown;
  readonly context: { getRemainingTimeInMillis(): number };
}

/**
 * Acquires the lock, runs the handler and releases the lock, all before the invocation's time is
 * over.
 */
export class Invocation {
  readonly #parts: InvocationParts;
  readonly #settings: InvocationSettings;
  /** The TTL in ms of a lock that is made for this invocation; 0 if too little time is left. */
  readonly ttlMs: number;
  readonly #waitMs: number;

  constructor(parts: InvocationParts, settings: InvocationSettings) {
    this.#parts = parts;
    this.#settings = settings;
    const leftMs = Math.floor(this.#leftMs());
    const { ttlMs, waitMs } = settings;
    // The lock may be granted when the wait is nearly over: its TTL must fit behind.
    const fitMs = Math.min(ttlMs, Math.max(leftMs - waitMs, Math.floor(leftMs / 2)));
    this.ttlMs = fitMs < MIN_TTL_MS ? 0 : fitMs;
    this.#waitMs = Math.min(waitMs, leftMs);
  }

  /**
   * Runs the handler under the lock.
   *
   * @param isOwn Whether the lock was made for this invocation.
   */
  async run<T>(
    lock: DistributedLock,
    handler: (lease: Lease | undefined) => T | Promise<T>,
    isOwn: boolean,
  ): Promise<T | LambdaResponse> {
    if (this.#leftMs() < MIN_TTL_MS) return this.endForTime();
    const waitMs = isOwn ? Math.min(this.#waitMs, this.#leftMs() - this.ttlMs) : this.#waitMs;
    const acquired = await this.#acquire(lock, Math.max(0, Math.floor(waitMs)));
    if (acquired.state === "unlocked") return await handler(undefined);
    if (acquired.state === "failed") return this.#end(acquired.problem, acquired.cause);
    if (acquired.state === "gone") return this.#end(unavailable());
    const isTimed = lock.capabilities.endsBy === "ttl";
    if (this.#leftMs() <= 0 || (isTimed && servedMs(acquired.lease) > this.#remainingMs())) {
      await this.awaitCleanUp(acquired.lease.release());
      return this.endForTime();
    }
    return await this.#runUnderLease(this.#bound(acquired.lease, isTimed), handler);
  }

  /** Ends because too little time is left. */
  endForTime(): LambdaResponse {
    return this.#end(problem("too-little-time", {
      status: 503,
      title: "Too little time",
      detail: "The lock would outlive the invocation if it were killed",
    }));
  }

  /** Waits for a clean-up, but not longer than the invocation may take. Ignores its failure. */
  async awaitCleanUp(cleanUp: PromiseLike<unknown>): Promise<void> {
    const leftMs = this.#remainingMs() - this.#settings.marginMs / 2;
    await within(SYSTEM_CLOCK, cleanUp, Math.max(leftMs, 0)).catch(() => {});
  }

  /** How long in ms it is until the invocation is killed; by the wall clock. */
  #remainingMs(): number {
    const { context } = this.#parts;
    if (typeof context?.getRemainingTimeInMillis !== "function") {
      throw new TypeError("Cannot tell how much time is left: pass on Lambda's context");
    }
    const remainingMs = context.getRemainingTimeInMillis();
    // Timers accept no more than this; a value that is no number counts as no time.
    return remainingMs > 0 ? Math.min(remainingMs, MAX_DURATION_MS) : 0;
  }

  /** How long in ms a lease may be used. */
  #leftMs(): number {
    return this.#remainingMs() - this.#settings.marginMs;
  }

  #end(problem: Problem, cause?: unknown): LambdaResponse {
    return endWithProblem(this.#parts.event, this.#parts.name, problem, cause);
  }

  #bound(lease: Lease, renews: boolean): InvocationLease {
    const [leftMs, remainingMs] = [() => this.#leftMs(), () => this.#remainingMs()];
    return new InvocationLease(lease, { leftMs, remainingMs, renews });
  }

  /** Gives up a little after the lease could no longer be used, whatever the service does. */
  async #acquire(lock: DistributedLock, waitMs: number): Promise<AcquireResult> {
    const late = new AbortController();
    const settings = { ...this.#settings, waitMs, autoRenew: false };
    const timeoutMs = this.#leftMs() + this.#settings.marginMs / 4;
    const acquiring = acquireForRequest(lock, this.#parts.name, settings, late.signal);
    const result = await within(SYSTEM_CLOCK, acquiring, timeoutMs);
    if (result !== TIMED_OUT) return result;
    late.abort(new DOMException("The invocation has no time left", "TimeoutError"));
    report(this.#settings, late.signal.reason);
    return { state: "gone" };
  }

  async #runUnderLease<T>(
    lease: InvocationLease,
    handler: (lease: Lease) => T | Promise<T>,
  ): Promise<T | LambdaResponse> {
    const result = await runUnderLease(lease, () => handler(lease));
    await this.awaitCleanUp(lease.release());
    if (result.state === "done") return result.value;
    if (result.state === "failed") throw result.error;
    report(this.#settings, result.error);
    return this.#end(leaseLost(), result.error);
  }
}
