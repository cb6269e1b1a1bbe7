/**
 * `request()` of the Web Locks API, on top of acquire and release.
 *
 * @module
 * @see {@link https://w3c.github.io/web-locks/}
 */
import type {
  AcquireOptions,
  Lease,
  RequestOptions,
  TryAcquireOptions,
} from "./distributed_lock.ts";
import { LeaseLostError } from "./errors.ts";
import { checkName, checkRequestOptions, notSupported } from "./validate.ts";

/** What `request()` needs of a strategy. */
export interface RequestSource {
  acquire(name: string, options: AcquireOptions): Promise<Lease>;
  tryAcquire(name: string, options: TryAcquireOptions): Promise<Lease | null>;
  /** Left out by strategies that cannot steal. */
  steal?(name: string, options: AcquireOptions): Promise<Lease>;
}

/** The callback of `request()`. */
export type RequestCallback<T> = (lease: Lease | null) => T | Promise<T>;

/** The two forms of arguments that `request()` takes after the name. */
export type RequestArguments<T> =
  | [callback: (lease: Lease) => T | Promise<T>]
  | [options: RequestOptions, callback: RequestCallback<T>];

/** Runs a callback under a lock, as `navigator.locks.request()` does. */
export async function request<T>(
  source: RequestSource,
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
  const lease = await take(source, name, options);
  return lease === null ? await callback(null) : await runUnder(lease, callback);
}

function take(source: RequestSource, name: string, options: RequestOptions): Promise<Lease | null> {
  const { mode, ifAvailable, steal, ...rest } = options;
  if (mode === "shared") throw notSupported('This strategy has no mode "shared"');
  if (ifAvailable) return source.tryAcquire(name, rest);
  if (!steal) return source.acquire(name, rest);
  if (source.steal === undefined) throw notSupported("This strategy cannot steal a lock");
  return source.steal(name, rest);
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
