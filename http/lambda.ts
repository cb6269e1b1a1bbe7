/**
 * AWS Lambda handlers under a lock.
 *
 * @example Usage
 * ```ts
 * import { MemoryLock } from "@holdfast/lock";
 * import { lambdaLock } from "@holdfast/lock/http/lambda";
 * import { assertEquals } from "@std/assert";
 *
 * await using locks = new MemoryLock(); // in a real function: Redis, ZooKeeper
 * export const handler = lambdaLock(locks, {
 *   key: (event: { order: string }) => `orders:${event.order}`,
 * })(async (event, _context, lease) => {
 *   lease.throwIfLost();
 *   return await Promise.resolve(`shipped ${event.order}`);
 * });
 *
 * const context = { getRemainingTimeInMillis: () => 3_000 };
 * assertEquals(await handler({ order: "42" }, context), "shipped 42");
 * ```
 *
 * @module
 */
import type { DistributedLock, Lease } from "../core/distributed_lock.ts";
import { LockError } from "../core/errors.ts";
import { checkDuration, checkTtl, MAX_DURATION_MS, MIN_TTL_MS } from "../core/validate.ts";
import { InvocationLease } from "./_invocation_lease.ts";
import { nameOf, take, type Taken } from "./_take.ts";
import { workUnder } from "./_work.ts";
import {
  checkKey,
  type HoldOptions,
  type HoldSettings,
  type LockKey,
  readSettings,
  report,
} from "./options.ts";
import { leaseLost, type Problem, problem } from "./problem.ts";

/** What is used of Lambda's context. */
export interface LambdaContext {
  /** How long in ms the invocation may still take. */
  getRemainingTimeInMillis(): number;
}

/** A response for API Gateway, a function URL or a load balancer. */
export interface LambdaResponse {
  /** The status. */
  statusCode: number;
  /** The headers. */
  headers: Record<string, string>;
  /** The body, in JSON. */
  body: string;
}

/** Options of {@linkcode lambdaLock} for handlers that always have a lease. */
export interface LambdaLockOptions<Event, Context extends LambdaContext>
  extends Omit<HoldOptions, "fencingHeader" | "maxHoldMs"> {
  /** The name of the lock for an event. */
  key: LockKey<[event: Event, context: Context], string>;
  /** As in {@linkcode HoldOptions}; `"proceed"` takes {@linkcode OptionalLambdaLockOptions}. */
  onUnavailable?: "reject";
  /** The longest time in ms that an invocation may hold the lock; its remaining time unless given. */
  maxHoldMs?: number;
  /**
   * What is kept back of the invocation's time, in ms, for giving the lock back and answering.
   *
   * @default {500}
   */
  marginMs?: number;
  /**
   * The TTL of the locks that a factory makes, in ms; less if less time remains.
   *
   * @default {10000}
   */
  ttlMs?: number;
}

/** Options of {@linkcode lambdaLock} for handlers that may run without a lease. */
export interface OptionalLambdaLockOptions<Event, Context extends LambdaContext>
  extends Omit<LambdaLockOptions<Event, Context>, "key" | "onUnavailable"> {
  /** The name of the lock for an event; `undefined` if it needs none. */
  key: LockKey<[event: Event, context: Context]>;
  /** As in {@linkcode HoldOptions}. */
  onUnavailable?: "reject" | "proceed";
}

/** Makes a lock for one invocation, with a TTL in ms that ends with it. */
export type LockFactory = (ttlMs: number) => DistributedLock;

/** A handler that runs under a lease. */
export type LambdaLeaseHandler<Event, Context, L, Result> = (
  event: Event,
  context: Context,
  lease: L,
) => Result | Promise<Result>;

/** A handler as Lambda takes it. */
export type LambdaHandler<Event, Context, Result> = (
  event: Event,
  context: Context,
) => Promise<Result | LambdaResponse>;

/** Why an invocation should be tried again. */
export type RetryReason = "busy" | "unavailable" | "lease-lost" | "too-little-time";

const REASONS: Record<RetryReason, string> = {
  "busy": "somebody else holds the lock",
  "unavailable": "the lock service does not answer",
  "lease-lost": "the lease was lost",
  "too-little-time": "the lock would outlive the invocation if it were killed",
};

/**
 * An invocation without an HTTP response could not be done under its lock: throw it back into the
 * queue. Lambda, SQS and Step Functions try again what throws.
 */
export class RetryableLockError extends LockError {
  /** Always true: to be found by whatever retries. */
  readonly retryable = true;
  /** What has happened. */
  readonly reason: RetryReason;
  /** After how many ms it makes sense to try again, if that is known. */
  readonly retryAfterMs: number | undefined;
  /** The name of the class. */
  override readonly name = "RetryableLockError";

  /**
   * Creates an error.
   *
   * @param reason What has happened.
   * @param lockName The name of the lock.
   * @param retryAfterMs After how many ms it makes sense to try again.
   * @param options As for `Error`.
   */
  constructor(
    reason: RetryReason,
    lockName: string,
    retryAfterMs?: number,
    options?: ErrorOptions,
  ) {
    super(`Cannot do the invocation now: ${REASONS[reason]}`, lockName, options);
    this.reason = reason;
    this.retryAfterMs = retryAfterMs;
  }
}

/** Default of {@linkcode LambdaLockOptions.marginMs}. */
export const DEFAULT_MARGIN_MS = 500;
/** Default of {@linkcode LambdaLockOptions.ttlMs}. */
export const DEFAULT_LAMBDA_TTL_MS = 10_000;

/**
 * Wraps a Lambda handler so that at most one invocation per key is in it, in all instances together.
 *
 * The wait and the lease end with the invocation (`marginMs` before it), by the wall clock, so that an
 * instance that was frozen and thawed knows that its lease is a thing of the past. The lock is given
 * back before the invocation ends. A TTL never exceeds the remaining time: the lock of an invocation
 * that is killed frees itself by then. With a *factory*, `(ttlMs) => new RedisLock(client, { ttlMs })`,
 * each invocation has a lock of its own with a TTL that fits, disposed at its end, so that no
 * subscription stays open in a frozen instance; a lock that is passed as it is must have a TTL below
 * the function's timeout, or invocations are refused as `"too-little-time"`. (A ZooKeeper session
 * cannot be shortened: its timeout is what a killed invocation blocks for.)
 *
 * An HTTP event (API Gateway, function URL, load balancer) that cannot have the lock gets a 409, 423 or
 * 503 response with a problem in JSON; any other event (SQS, EventBridge, …) ends with a
 * {@linkcode RetryableLockError}.
 *
 * @param lock Any strategy, or a factory.
 * @param options The key, and what to do if it is busy.
 * @returns A function that wraps a handler; the handler gets the lease after event and context.
 * @throws {TypeError|RangeError} If an option is bad.
 */
export function lambdaLock<Event, Context extends LambdaContext>(
  lock: DistributedLock | LockFactory,
  options: LambdaLockOptions<Event, Context>,
): <Result>(
  handler: LambdaLeaseHandler<Event, Context, Lease, Result>,
) => LambdaHandler<Event, Context, Result>;
/** The same for handlers that may run without a lease: no key, or `onUnavailable: "proceed"`. */
export function lambdaLock<Event, Context extends LambdaContext>(
  lock: DistributedLock | LockFactory,
  options: OptionalLambdaLockOptions<Event, Context>,
): <Result>(
  handler: LambdaLeaseHandler<Event, Context, Lease | undefined, Result>,
) => LambdaHandler<Event, Context, Result>;
export function lambdaLock<Event, Context extends LambdaContext>(
  lock: DistributedLock | LockFactory,
  options: OptionalLambdaLockOptions<Event, Context>,
): <Result>(
  handler: LambdaLeaseHandler<Event, Context, Lease, Result>,
) => LambdaHandler<Event, Context, Result> {
  const { key, marginMs = DEFAULT_MARGIN_MS, ttlMs = DEFAULT_LAMBDA_TTL_MS } = options;
  checkKey(key);
  checkDuration("marginMs", marginMs, 0);
  checkTtl(ttlMs);
  // The invocation's end bounds the lease: a function may run for 15 minutes.
  const settings = readSettings({ ...options, maxHoldMs: options.maxHoldMs ?? MAX_DURATION_MS });
  return (handler) => async (event, context) => {
    const name = await nameOf(key, event, context);
    if (name === undefined) return await handler(event, context, undefined!);
    const work = (lease: Lease | undefined) => handler(event, context, lease!);
    const invocation = new Invocation(name, settings, event, context, marginMs);
    if (typeof lock !== "function") return await invocation.run(lock, work);
    const ttl = Math.min(ttlMs, Math.floor(invocation.leftMs()));
    if (ttl < MIN_TTL_MS) return invocation.refuse(tooLittleTime());
    const own = lock(ttl);
    try {
      return await invocation.run(own, work);
    } finally {
      await invocation.within(own[Symbol.asyncDispose]());
    }
  };
}

/** One invocation that wants a lock. */
class Invocation {
  readonly #name: string;
  readonly #settings: HoldSettings;
  readonly #event: unknown;
  readonly #context: LambdaContext;
  readonly #marginMs: number;

  constructor(
    name: string,
    settings: HoldSettings,
    event: unknown,
    context: LambdaContext,
    marginMs: number,
  ) {
    this.#name = name;
    this.#settings = settings;
    this.#event = event;
    this.#context = context;
    this.#marginMs = marginMs;
  }

  /** How long in ms a lease may be used; by the wall clock, as the context has it. */
  leftMs(): number {
    return this.#context.getRemainingTimeInMillis() - this.#marginMs;
  }

  async run<T>(
    lock: DistributedLock,
    work: (lease: Lease | undefined) => T | Promise<T>,
  ): Promise<T | LambdaResponse> {
    if (this.leftMs() < MIN_TTL_MS) return this.refuse(tooLittleTime());
    const taken = await this.#take(lock);
    if (taken.state === "unlocked") return await work(undefined);
    if (taken.state !== "held") {
      return this.refuse(taken.state === "refused" ? taken.problem : tooLittleTime());
    }
    const isTimed = lock.capabilities.endsBy === "ttl";
    // The strategy allows for drift: what it has asked for is a little more.
    const isTooLong = taken.lease.remainingMs * 1.01 > this.#context.getRemainingTimeInMillis();
    if (this.leftMs() <= 0 || (isTimed && isTooLong)) {
      await this.within(taken.lease.release());
      return this.refuse(tooLittleTime());
    }
    const limits = { leftMs: () => this.leftMs(), renews: isTimed };
    return await this.#runUnder(new InvocationLease(taken.lease, limits), work);
  }

  /** Ends without having run the handler, or with its lease lost. */
  refuse(problem: Problem, cause?: unknown): LambdaResponse {
    const { kind, status, headers, body, retryAfterMs } = problem;
    if (isHttpEvent(this.#event)) return { statusCode: status, headers: { ...headers }, body };
    if (kind === "bad-request") throw new RangeError("Cannot use the key of this event for a lock");
    throw new RetryableLockError(kind as RetryReason, this.#name, retryAfterMs, { cause });
  }

  /** Waits for a clean-up, but no longer than the invocation may take. */
  async within(cleanUp: PromiseLike<unknown>): Promise<void> {
    let timer: ReturnType<typeof setTimeout> | undefined;
    const leftMs = this.#context.getRemainingTimeInMillis() - this.#marginMs / 2;
    const late = new Promise<void>((resolve) => {
      timer = setTimeout(resolve, Math.max(leftMs, 0));
    });
    await Promise.race([cleanUp, late]).catch(() => {});
    clearTimeout(timer);
  }

  #take(lock: DistributedLock): Promise<Taken> {
    const waitMs = Math.min(this.#settings.waitMs, Math.floor(this.leftMs()));
    return take(lock, this.#name, { ...this.#settings, waitMs, autoRenew: false });
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
    return this.refuse(leaseLost(), outcome.error);
  }
}

function tooLittleTime(): Problem {
  return problem("too-little-time", {
    status: 503,
    title: "Too little time",
    detail: "The lock would outlive the invocation if it were killed",
  });
}

/** Whether an event wants an HTTP response: of API Gateway (1.0, 2.0), a function URL, a balancer. */
function isHttpEvent(event: unknown): boolean {
  if (typeof event !== "object" || event === null) return false;
  const { requestContext, httpMethod } = event as {
    requestContext?: { http?: unknown } | null;
    httpMethod?: unknown;
  };
  if (typeof requestContext !== "object" || requestContext === null) return false;
  return typeof httpMethod === "string" || requestContext.http !== undefined;
}
