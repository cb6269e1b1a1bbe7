/**
 * One invocation of a function that wants a lock.
 *
 * @module
 */
import type { DistributedLock, Lease } from "../../core/distributed_lock.ts";
import { MAX_DURATION_MS, MIN_TTL_MS } from "../../core/validate.ts";
import { InvocationLease, servedMs } from "./invocation_lease.ts";
import { type LambdaResponse, refuse } from "./refusal.ts";
import { take, type Taken } from "./take.ts";
import { workUnder } from "./work.ts";
import { type HoldSettings, report } from "./options.ts";
import { leaseLost, problem, unavailable } from "./problem.ts";

/** What bounds all invocations of a function. */
export interface InvocationSettings extends HoldSettings {
  /** The longest TTL of a lock of its own, in ms. */
  readonly ttlMs: number;
  /** What is kept back of its time, in ms. */
  readonly marginMs: number;
}

/** What an invocation is about. */
export interface InvocationParts {
  /** The name of the lock. */
  readonly name: string;
  readonly event: unknown;
  readonly context: { getRemainingTimeInMillis(): number };
}

/** Takes the lock, does the work, and gives the lock back, all before the invocation's time is over. */
export class Invocation {
  readonly #parts: InvocationParts;
  readonly #settings: InvocationSettings;
  /** What a lock of its own may have, in ms; 0 if too little time is left. */
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

  /** Does the work under the lock, which may have been made for this invocation. */
  async run<T>(
    lock: DistributedLock,
    work: (lease: Lease | undefined) => T | Promise<T>,
    isOwn: boolean,
  ): Promise<T | LambdaResponse> {
    if (this.#leftMs() < MIN_TTL_MS) return this.refuseForTime();
    const waitMs = isOwn ? Math.min(this.#waitMs, this.#leftMs() - this.ttlMs) : this.#waitMs;
    const taken = await this.#take(lock, Math.max(0, Math.floor(waitMs)));
    if (taken.state === "unlocked") return await work(undefined);
    if (taken.state === "refused") return this.#refuse(taken.problem, taken.cause);
    if (taken.state === "gone") return this.#refuse(unavailable());
    const isTimed = lock.capabilities.endsBy === "ttl";
    if (this.#leftMs() <= 0 || (isTimed && servedMs(taken.lease) > this.#remainingMs())) {
      await this.within(taken.lease.release());
      return this.refuseForTime();
    }
    return await this.#runUnder(this.#bound(taken.lease, isTimed), work);
  }

  /** Ends for want of time. */
  refuseForTime(): LambdaResponse {
    return this.#refuse(problem("too-little-time", {
      status: 503,
      title: "Too little time",
      detail: "The lock would outlive the invocation if it were killed",
    }));
  }

  /** Waits for a clean-up, but no longer than the invocation may take. */
  async within(cleanUp: PromiseLike<unknown>): Promise<void> {
    const { promise: late, resolve } = Promise.withResolvers<void>();
    const leftMs = this.#remainingMs() - this.#settings.marginMs / 2;
    const timer = setTimeout(resolve, Math.max(leftMs, 0));
    await Promise.race([cleanUp, late]).catch(() => {});
    clearTimeout(timer);
  }

  /** How long in ms it is until the invocation is killed; by the wall clock. */
  #remainingMs(): number {
    const { context } = this.#parts;
    if (typeof context?.getRemainingTimeInMillis !== "function") {
      throw new TypeError("Cannot tell how much time is left: pass on Lambda's context");
    }
    const remainingMs = context.getRemainingTimeInMillis();
    // No timer takes more; what is no number is no time.
    return remainingMs > 0 ? Math.min(remainingMs, MAX_DURATION_MS) : 0;
  }

  /** How long in ms a lease may be used. */
  #leftMs(): number {
    return this.#remainingMs() - this.#settings.marginMs;
  }

  #refuse(problem: Parameters<typeof refuse>[2], cause?: unknown): LambdaResponse {
    return refuse(this.#parts.event, this.#parts.name, problem, cause);
  }

  #bound(lease: Lease, renews: boolean): InvocationLease {
    const [leftMs, remainingMs] = [() => this.#leftMs(), () => this.#remainingMs()];
    return new InvocationLease(lease, { leftMs, remainingMs, renews });
  }

  /** Gives up a little after the invocation's time, whatever the service does. */
  async #take(lock: DistributedLock, waitMs: number): Promise<Taken> {
    const { name } = this.#parts;
    const late = new AbortController();
    const gone = Promise.withResolvers<Taken>();
    const timer = setTimeout(() => {
      late.abort(new DOMException("The invocation has no time left", "TimeoutError"));
      report(this.#settings, late.signal.reason);
      gone.resolve({ state: "gone" });
    }, this.#leftMs() + this.#settings.marginMs / 4);
    const settings = { ...this.#settings, waitMs, autoRenew: false };
    try {
      return await Promise.race([take(lock, name, settings, late.signal), gone.promise]);
    } finally {
      clearTimeout(timer);
    }
  }

  async #runUnder<T>(
    lease: InvocationLease,
    work: (lease: Lease) => T | Promise<T>,
  ): Promise<T | LambdaResponse> {
    const outcome = await workUnder(lease, () => work(lease));
    await this.within(lease.release());
    if (outcome.state === "done") return outcome.value;
    if (outcome.state === "failed") throw outcome.error;
    report(this.#settings, outcome.error);
    return this.#refuse(leaseLost(), outcome.error);
  }
}
