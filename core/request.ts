/**
 * `request()` of the Web Locks API, on top of acquire and release.
 *
 * @module
 * @see {@link https://w3c.github.io/web-locks/}
 */
import type {
  AcquireOptions,
  Lease,
  RequestMethod,
  RequestOptions,
  TryAcquireOptions,
} from "./distributed_lock.ts";
import { LeaseLostError } from "./errors.ts";
import { checkName, checkRequestOptions, notSupported } from "./validate.ts";

/** The two ways to acquire that `request()` chooses from. */
export interface RequestSource {
  acquire(name: string, options: AcquireOptions): Promise<Lease>;
  tryAcquire(name: string, options: TryAcquireOptions): Promise<Lease | null>;
}

/** Takes the lock away from its holder. */
export type Steal = (name: string, options: AcquireOptions) => Promise<Lease>;

type RequestCallback<T> = (lease: Lease | null) => T | Promise<T>;

/** The arguments of `request()` after the name. */
type RequestArguments<T> =
  | [callback: (lease: Lease) => T | Promise<T>]
  | [options: RequestOptions, callback: RequestCallback<T>];

/**
 * Makes the `request()` of a strategy, which works like `navigator.locks.request()`.
 *
 * @param source The strategy.
 * @param steal Left out by strategies that cannot steal.
 */
export function requestOn(source: RequestSource, steal?: Steal): RequestMethod {
  return <T>(name: string, ...args: RequestArguments<T>) => request<T>(source, steal, name, args);
}

async function request<T>(
  source: RequestSource,
  steal: Steal | undefined,
  name: string,
  args: RequestArguments<T>,
): Promise<T> {
  checkName(name);
  // The short form promises a lease, and without `ifAvailable` there always is one.
  const [options, callback] = args.length === 1
    ? [{}, args[0] as RequestCallback<T>]
    : [args[0] ?? {}, args[1]];
  if (typeof callback !== "function") {
    throw new TypeError("Cannot request a lock as the callback is not a function");
  }
  checkRequestOptions(options);
  const lease = await acquireAs(options, name, source, steal);
  return lease === null ? await callback(null) : await runUnder(lease, callback);
}

function acquireAs(
  options: RequestOptions,
  name: string,
  source: RequestSource,
  stealFrom: Steal | undefined,
): Promise<Lease | null> {
  const { mode, ifAvailable, steal, ...rest } = options;
  if (mode === "shared") throw notSupported('This strategy has no mode "shared"');
  if (ifAvailable) return source.tryAcquire(name, rest);
  if (!steal) return source.acquire(name, rest);
  if (stealFrom === undefined) throw notSupported("This strategy cannot steal a lock");
  return stealFrom(name, rest);
}

async function runUnder<T>(lease: Lease, callback: RequestCallback<T>): Promise<T> {
  let result: T;
  try {
    result = await callback(lease);
  } catch (error) {
    await lease.release();
    throw error;
  }
  if (!(await lease.release())) throwLoss(lease);
  return result;
}

/** Throws if the lease was lost; a lease that the callback released by itself is fine. */
function throwLoss(lease: Lease): void {
  try {
    lease.throwIfLost();
  } catch (error) {
    if (error instanceof LeaseLostError) throw error;
  }
}
