/**
 * `request()` of the Web Locks API, on top of acquire and release. Its options are read in
 * `call_options.ts`.
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
import { LeaseLostError } from "./errors.ts";
import type { Nesting } from "./nesting.ts";
import { checkName, describe, notSupported, type OptionTable } from "./options.ts";

export interface RequestParts {
  /** The options of `acquire()`. */
  readonly options: OptionTable<AcquireOptions>;
  readonly nesting: Nesting;
  /**
   * Takes the lock away from its holder, whose lease is lost with the reason `"stolen"`. Left out by strategies
   * that cannot.
   */
  steal?(name: string, options: AcquireOptions): Promise<Lease>;
}

type RequestCallback<T> = (lease: Lease | null) => T | Promise<T>;

type RequestArguments<T> =
  | [callback: (lease: Lease) => T | Promise<T>]
  | [options: RequestOptions, callback: RequestCallback<T>]
  | [options: RequestOptions, callback: (lease: Lease) => T | Promise<T>];

/** Makes the `request()` of a strategy. It rejects as {@linkcode RequestMethod} says. */
export function requestOn(source: DistributedLock, parts: RequestParts): RequestMethod {
  const table = { ...parts.options, ...REQUEST_OPTIONS };
  return async <T>(name: string, ...args: RequestArguments<T>): Promise<T> => {
    checkName(name);
    const options = args.length === 1 ? {} : args[0] ?? {};
    // Some forms promise a lease, and without `ifAvailable` there always is one.
    const callback = args.at(-1) as RequestCallback<T>;
    if (typeof callback !== "function") {
      const order = typeof args[0] === "function" ? "; the options come before it" : "";
      throw new TypeError(
        `Cannot request lock ${JSON.stringify(name)}: the callback must be a function, ` +
          `but it is ${describe(callback)}${order}`,
      );
    }
    const lease = await acquireAs(readRequestOptions(options, table), name, source, parts);
    return lease === null ? await callback(null) : await runUnder(lease, callback, parts.nesting);
  };
}

function acquireAs(
  options: RequestOptions,
  name: string,
  source: DistributedLock,
  parts: RequestParts,
): Promise<Lease | null> {
  const { ifAvailable, steal, ...rest } = options;
  if (ifAvailable) return source.tryAcquire(name, rest);
  if (!steal) return source.acquire(name, rest);
  if (parts.steal === undefined) {
    throw notSupported(
      `Cannot steal lock ${JSON.stringify(name)}: this strategy cannot steal, ` +
        "see its 'capabilities'; wait for the lock instead",
    );
  }
  return parts.steal(name, rest);
}

async function runUnder<T>(
  lease: Lease,
  callback: RequestCallback<T>,
  nesting: Nesting,
): Promise<T> {
  // Lost or disposed before the callback starts: then it never does.
  if (lease.remainingMs === 0 && lease.signal.aborted) {
    await lease.release().catch(() => {});
    throw lease.signal.reason;
  }
  let result: T;
  try {
    result = await nesting.run(lease, callback);
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
