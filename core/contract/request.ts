/**
 * `request()` of the Web Locks API, and what other parts that run code under a lock share with it.
 *
 * @module
 * @see {@link https://w3c.github.io/web-locks/}
 */
import type {
  AcquireOptions,
  DistributedLock,
  Lease,
  RequestMethod,
  RequestOptions,
} from "./distributed_lock.ts";
import { readRequestOptions, REQUEST_OPTIONS } from "./call_options.ts";
import { LeaseLostError, LockError } from "./errors.ts";
import type { Nesting } from "./nesting.ts";
import { checkName, describe, notSupported, type OptionTable } from "./options.ts";

/** Makes the `request()` of a strategy. It rejects as {@linkcode RequestMethod} says. */
export function requestOn(source: DistributedLock, parts: {
  /** The options of `acquire()`. */
  readonly options: OptionTable<AcquireOptions>;
  readonly nesting: Nesting;
  /** Left out by strategies that cannot steal. */
  steal?(name: string, options: AcquireOptions): Promise<Lease>;
}): RequestMethod {
  const table = { ...parts.options, ...REQUEST_OPTIONS };
  return async <T>(name: string, ...args: readonly unknown[]): Promise<T> => {
    checkName(name);
    const options = (args.length === 1 ? {} : args[0] ?? {}) as RequestOptions;
    // Some forms promise a lease, and without `ifAvailable` there always is one.
    const callback = args.at(-1) as (lease: Lease | null) => T | Promise<T>;
    if (typeof callback !== "function") {
      const order = typeof args[0] === "function" ? "; the options come before it" : "";
      throw new TypeError(
        `Cannot request lock ${JSON.stringify(name)}: the callback must be a function, ` +
          `but it is ${describe(callback)}${order}`,
      );
    }
    const { ifAvailable, steal, ...rest } = readRequestOptions(options, table);
    if (steal && parts.steal === undefined) {
      throw notSupported(
        `Cannot steal lock ${JSON.stringify(name)}: this strategy cannot steal, ` +
          "see its 'capabilities'; wait for the lock instead",
      );
    }
    const lease = steal
      ? await parts.steal!(name, rest)
      : await source[ifAvailable ? "tryAcquire" : "acquire"](name, rest);
    if (lease === null) return await callback(null);
    return await runUnder(lease, () => {
      // Lost or disposed before the callback starts: then it never does.
      if (lease.remainingMs === 0) lease.signal.throwIfAborted();
      return parts.nesting.run(lease, callback);
    });
  };
}

/** Runs a critical section, then releases its lease or its set. Throws if a lease was lost before. */
export async function runUnder<T>(
  held: Pick<Lease, "release" | "throwIfLost">,
  run: () => T | Promise<T>,
): Promise<T> {
  let result: T;
  try {
    result = await run();
  } catch (error) {
    await held.release().catch(() => {}); // the callback's own error wins
    throw error;
  }
  await held.release();
  try {
    held.throwIfLost();
  } catch (error) {
    if (error instanceof LeaseLostError) throw error; // after a mere release there is no such error
  }
  return result;
}

/**
 * Returns the error if the lease is lost, even if no timer has fired yet; `null` if it is not, or if its code has
 * released it. If a suspension has left it unproven, a renewal (for `ttlMs`, or the TTL of the lease) asks the
 * service: in an outage again and again until the deadline of the lease.
 */
export async function lossOf(lease: Lease, ttlMs?: number): Promise<unknown> {
  try {
    lease.throwIfLost();
    return null;
  } catch (loss) {
    if (!(loss instanceof LeaseLostError)) return null;
    try {
      await lease.renew(ttlMs);
      return null;
    } catch (error) {
      if (error instanceof LeaseLostError) return error;
      // Its code has released it in the meantime; or a lock that is being disposed renews no lease.
      return error instanceof LockError && error.code === "ERR_LEASE_RELEASED" ? null : loss;
    }
  }
}

/** Whether an error is `reason`, or has it as its cause, like that of a call which `reason` aborted. */
export function stemsFrom(error: unknown, reason: unknown): boolean {
  if (reason === undefined) return false; // nothing was aborted, and most errors have no cause
  return error === reason || error instanceof Error && error.cause === reason;
}
