/**
 * `request()` of the Web Locks API, on top of acquire and release. The checks of its options are in
 * `validate.ts`.
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
import { checkName, checkRequestOptions, describeType, notSupported } from "./validate.ts";

/** The methods of a strategy that `request()` calls. */
export interface RequestSource {
  acquire(name: string, options: AcquireOptions): Promise<Lease>;
  tryAcquire(name: string, options: TryAcquireOptions): Promise<Lease | null>;
}

/** Takes the lock away from its holder, whose lease is lost with the reason `"stolen"`. */
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
 * @param steal How the strategy steals a lock; left out by strategies that cannot.
 * @returns The method. It rejects as {@linkcode RequestMethod} says.
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
    throw new TypeError(
      `Cannot request lock ${JSON.stringify(name)}: the callback must be a function, ` +
        `but it is ${describeType(callback)}`,
    );
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
  if (mode === "shared") {
    throw notSupported(
      `Cannot request lock ${JSON.stringify(name)} in mode "shared": ` +
        'this strategy offers mode "exclusive" only',
    );
  }
  if (ifAvailable) return source.tryAcquire(name, rest);
  if (!steal) return source.acquire(name, rest);
  if (stealFrom === undefined) {
    throw notSupported(
      `Cannot steal lock ${JSON.stringify(name)}: this strategy cannot steal, ` +
        "see its 'capabilities'; wait for the lock instead",
    );
  }
  return stealFrom(name, rest);
}

async function runUnder<T>(lease: Lease, callback: RequestCallback<T>): Promise<T> {
  // Lost or disposed before the callback starts: then it never does.
  if (lease.remainingMs === 0 && lease.signal.aborted) {
    await lease.release().catch(() => {});
    throw lease.signal.reason;
  }
  let result: T;
  try {
    result = await callback(lease);
  } catch (error) {
    await lease.release().catch(() => {}); // the callback's own error wins
    throw error;
  }
  await lease.release();
  throwLoss(lease);
  return result;
}

/** Throws if the lease was lost, or over since disposal. After a mere release there is no such error. */
function throwLoss(lease: Lease): void {
  try {
    lease.throwIfLost();
  } catch (error) {
    if (error instanceof LeaseLostError) throw error;
  }
}
