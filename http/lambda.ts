/**
 * Runs AWS Lambda handlers under a lock, on Lambda's runtimes from Node 22 on and on Deno. The life of
 * a request is in `internal/request.ts`, the steps of an invocation in `internal/lambda/invocation.ts`.
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
import { AsyncLocalStorage } from "node:async_hooks";
import type { DistributedLock, Lease } from "../core/contract/distributed_lock.ts";
import { endWithProblem, type LambdaResponse } from "./internal/lambda/answer.ts";
import { Invocation } from "./internal/lambda/invocation.ts";
import {
  checkLock,
  type HoldOptions,
  LAMBDA_OPTIONS,
  type LockKey,
  readOptions,
} from "./internal/options.ts";
import { keyOf, type RequestLease } from "./internal/request.ts";

export { type LockKey, NO_LOCK, type NoLock } from "./internal/options.ts";
export {
  type LambdaResponse,
  RetryableLockError,
  type RetryReason,
} from "./internal/lambda/answer.ts";

/** The part of Lambda's context that is used. */
export interface LambdaContext {
  /** Returns how long in ms the invocation may still take. */
  getRemainingTimeInMillis(): number;
}

/** Options of {@linkcode lambdaLock} for handlers that always have a lease. */
export interface LambdaLockOptions<Event, Context extends LambdaContext>
  extends Omit<HoldOptions, "fencingHeader" | "maxHoldMs"> {
  /** The name of the lock for an event. */
  key: LockKey<[event: Event, context: Context], string>;
  /** As in {@linkcode HoldOptions}. For `"proceed"` use {@linkcode OptionalLambdaLockOptions}. */
  onUnavailable?: "reject";
  /**
   * The longest time in ms that an invocation may hold the lock.
   *
   * @default the remaining time of the invocation
   */
  maxHoldMs?: number;
  /**
   * How much of the invocation's time, in ms, is reserved for the release and the answer.
   *
   * @default {500}
   */
  marginMs?: number;
  /**
   * The TTL in ms that a factory gets for each lock; less if the invocation has less time left.
   *
   * @default {10000}
   */
  ttlMs?: number;
}

/** Options of {@linkcode lambdaLock} for handlers that may run without a lease. */
export interface OptionalLambdaLockOptions<Event, Context extends LambdaContext>
  extends Omit<LambdaLockOptions<Event, Context>, "key" | "onUnavailable"> {
  /** The name of the lock for an event; {@linkcode NO_LOCK} if it needs none. */
  key: LockKey<[event: Event, context: Context]>;
  /**
   * The reaction to an outage, as in {@linkcode HoldOptions}.
   *
   * @default {"reject"}
   */
  onUnavailable?: "reject" | "proceed";
}

/** The leases of an invocation, which its event and context do not identify: tests pass the same ones twice. */
const nested = new AsyncLocalStorage<RequestLease[]>();

/**
 * Wraps a Lambda handler so that at most one invocation per key runs in it, across all instances.
 *
 * The wait and the lease end `marginMs` before the invocation times out, by the wall clock, so an instance that
 * was frozen notices that its lease is over. The lock is released before the invocation ends. A TTL never exceeds
 * the remaining time, so if Lambda kills the invocation, its lock expires by the time it would have timed out.
 *
 * With a *factory*, `(ttlMs) => new RedisLock(client, { ttlMs })`, each invocation has a lock of its own. Its TTL
 * fits even if the lock is granted at the end of the wait, which takes at most half of the invocation's time. The
 * lock is disposed at the end of the invocation, so that no subscription stays open in a frozen instance. A lock
 * without a factory must have a TTL below the function's timeout; otherwise invocations end with `"too-little-time"`.
 * (A ZooKeeper session cannot be shortened: a killed invocation blocks the lock for the session's timeout.)
 *
 * An HTTP event (API Gateway, function URL, load balancer) that does not get the lock, or loses it, gets
 * a response of 409 (`busyStatus`) or 503 with problem details in JSON. Any other event (SQS, EventBridge, …)
 * ends with a {@linkcode RetryableLockError}. If the lease is lost, a handler that ignores `lease.signal` may
 * still run when its instance serves the next invocation. A key that no lock can have gets a 400, or
 * throws a `RangeError`: a retry does not help.
 *
 * @param lock Any strategy, or a factory of a lock for each invocation.
 * @param options The key, how long to wait, and what to do without the lock; or the key alone.
 * @returns A function that wraps a handler: the handler gets the lease after the event and the context.
 * @throws {TypeError|RangeError} If an option is bad.
 *
 * @example A lock for each invocation, and no wait
 * ```ts
 * import { MemoryLock } from "@holdfast/lock";
 * import { lambdaLock, RetryableLockError } from "@holdfast/lock/http/lambda";
 * import { assertRejects } from "@std/assert";
 *
 * // In a real function: (ttlMs) => new RedisLock(client, { ttlMs })
 * await using busy = new MemoryLock();
 * await using _lease = await busy.acquire("nightly-report");
 * const handler = lambdaLock(() => busy, { key: "nightly-report" })(() => "done");
 *
 * const context = { getRemainingTimeInMillis: () => 3_000 };
 * await assertRejects(() => handler({}, context), RetryableLockError, "nightly-report");
 * ```
 */
export function lambdaLock<Event, Context extends LambdaContext>(
  lock: DistributedLock | ((ttlMs: number) => DistributedLock),
  options: LambdaLockOptions<Event, Context> | string,
): <Result, E extends Event = Event, C extends Context = Context>(
  handler: (event: E, context: C, lease: Lease) => Result | Promise<Result>,
) => (event: E, context: C) => Promise<Result | LambdaResponse>;
/** The same for handlers that may run without a lease, by {@linkcode NO_LOCK} or by `onUnavailable: "proceed"`. */
export function lambdaLock<Event, Context extends LambdaContext>(
  lock: DistributedLock | ((ttlMs: number) => DistributedLock),
  options: OptionalLambdaLockOptions<Event, Context>,
): <Result, E extends Event = Event, C extends Context = Context>(
  handler: (event: E, context: C, lease: Lease | undefined) => Result | Promise<Result>,
) => (event: E, context: C) => Promise<Result | LambdaResponse>;
export function lambdaLock<Event, Context extends LambdaContext>(
  lock: DistributedLock | ((ttlMs: number) => DistributedLock),
  options: OptionalLambdaLockOptions<Event, Context> | string,
): <Result, E extends Event = Event, C extends Context = Context>(
  handler: (event: E, context: C, lease: Lease) => Result | Promise<Result>,
) => (event: E, context: C) => Promise<Result | LambdaResponse> {
  checkLock("the first argument of lambdaLock()", lock, options, true);
  const read = readOptions("lambdaLock()", options, LAMBDA_OPTIONS);
  const settings = { ...read, fencingHeader: undefined };
  return (handler) => async (event, context) => {
    const name = await keyOf(read.key, event, context);
    // The types allow these options only with a handler that accepts `undefined`.
    if (name === null) return await handler(event, context, undefined!);
    if (typeof name !== "string") return endWithProblem(event, "", name.problem, name.cause);
    const leases = [...nested.getStore() ?? []];
    const run = (lease: Lease | undefined) =>
      nested.run(leases, () => handler(event, context, lease!));
    return await new Invocation(name, event, context, settings).run(lock, leases, run);
  };
}
