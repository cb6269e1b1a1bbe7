/**
 * The options of the calls that all strategies have: their names and checks. Options of constructors are
 * checked by the strategies.
 *
 * @module
 */
import type {
  AcquireOptions,
  AttachableAcquireOptions,
  AttachOptions,
  QueryOptions,
  RequestOptions,
} from "./distributed_lock.ts";
import { checkNames, type OptionNames } from "./option_names.ts";
import {
  checkCount,
  checkDuration,
  checkLabel,
  checkOptional,
  checkOwnerId,
  checkTtl,
  describeType,
  notSupported,
} from "./validate.ts";

/** The options of `acquire()` and `tryAcquire()`. */
export const ACQUIRE_NAMES: OptionNames & Record<keyof AcquireOptions, true> = {
  signal: true,
  waitMs: true,
  label: true,
  autoRenew: true,
  maxHoldMs: true,
  onWait: true,
};

/** The options of `attach()`. */
const ATTACH_NAMES: OptionNames & Record<keyof AttachOptions, true> = {
  signal: true,
  ttlMs: true,
  autoRenew: true,
  maxHoldMs: true,
  outlivesDisposal: true,
};

/** The options of `acquire()` and `tryAcquire()` of an `AttachableLock`. */
export const ATTACHABLE_NAMES: OptionNames & Record<keyof AttachableAcquireOptions, true> = {
  ...ACQUIRE_NAMES,
  ...ATTACH_NAMES,
  ownerId: true,
};

const QUERY_NAMES: OptionNames & Record<keyof QueryOptions, true> = { maxWaiters: true };

/** How many waiters `query()` lists unless the caller says so. */
export const DEFAULT_MAX_WAITERS = 64;

/**
 * Checks the options of `acquire()` and `tryAcquire()`, but not whether the signal has aborted.
 *
 * @throws {TypeError} If the options or one of them have a wrong type, or one is unknown.
 * @throws {RangeError} If an option is out of range.
 * @throws {DOMException} `NotSupportedError` for the mode `"shared"`.
 */
export function checkAcquireOptions(options: AcquireOptions): void {
  checkExclusive(options);
  checkNames("acquire()", options, ACQUIRE_NAMES);
  checkValues(options);
}

/** The same for an `AttachableLock`. */
export function checkAttachableOptions(options: AttachableAcquireOptions): void {
  checkExclusive(options);
  checkNames("acquire()", options, ATTACHABLE_NAMES);
  checkAttachableValues(options);
}

/** The same for `attach()`. */
export function checkAttachOptions(options: AttachOptions): void {
  checkExclusive(options);
  checkNames("attach()", options, ATTACH_NAMES);
  checkAttachableValues(options);
}

/**
 * Checks the options of `request()`. Unknown ones are ignored, as in Web Locks.
 *
 * @throws {TypeError} If the options or one of them have a wrong type.
 * @throws {RangeError} If an option is out of range.
 * @throws {DOMException} `NotSupportedError` for combinations that the Web Locks API refuses.
 */
export function checkRequestOptions(options: RequestOptions): void {
  checkObject(options);
  checkValues(options);
  checkOptional("ifAvailable", options.ifAvailable, "boolean");
  checkOptional("steal", options.steal, "boolean");
  checkMode(options.mode);
  if (options.steal && (options.ifAvailable || options.signal || options.waitMs !== undefined)) {
    throw notSupported(
      "Cannot use 'steal' with 'ifAvailable', 'signal' or 'waitMs': a steal never waits, so leave them out",
    );
  }
}

/**
 * Checks the options of `query()`. Returns how many waiters to list.
 *
 * @throws {TypeError} If an option has a wrong type or is unknown.
 * @throws {RangeError} If an option is out of range.
 */
export function readQueryOptions(options: QueryOptions): number {
  checkNames("query()", options, QUERY_NAMES);
  const { maxWaiters = DEFAULT_MAX_WAITERS } = options;
  checkCount("maxWaiters", maxWaiters);
  return maxWaiters;
}

function checkObject(options: unknown): void {
  if (typeof options === "object" && options !== null) return;
  throw new TypeError(
    `Cannot use the options: they must be an object, but they are ${describeType(options)}`,
  );
}

/** Only `request()` has a mode. Here it must not be ignored: the lease would be exclusive. */
function checkExclusive(options: object): void {
  checkObject(options);
  const { mode } = options as Pick<RequestOptions, "mode">;
  if (mode !== undefined && checkMode(mode) === "shared") {
    throw notSupported('Cannot use the mode "shared": this strategy offers mode "exclusive" only');
  }
}

function checkValues(options: AcquireOptions): void {
  const { signal, waitMs, label, autoRenew, maxHoldMs, onWait } = options;
  if (signal !== undefined && !(signal instanceof AbortSignal)) {
    throw new TypeError(
      `Cannot use 'signal': it must be an AbortSignal, but it is ${describeType(signal)}`,
    );
  }
  checkOptional("autoRenew", autoRenew, "boolean");
  checkOptional("onWait", onWait, "function");
  if (maxHoldMs !== undefined) checkDuration("maxHoldMs", maxHoldMs);
  if (waitMs !== undefined) checkDuration("waitMs", waitMs, 0);
  if (label !== undefined) checkLabel(label);
}

function checkAttachableValues(options: AttachableAcquireOptions): void {
  checkValues(options);
  const { ownerId, ttlMs, label, outlivesDisposal } = options;
  checkOptional("outlivesDisposal", outlivesDisposal, "boolean");
  if (ownerId !== undefined) checkOwnerId(ownerId);
  if (ttlMs !== undefined) checkTtl(ttlMs);
  if (ownerId !== undefined && label !== undefined) {
    throw new TypeError("Cannot use 'label' with 'ownerId': such a lease shows no label");
  }
}

function checkMode(given: unknown): "exclusive" | "shared" {
  const mode = given ?? "exclusive";
  if (mode === "exclusive" || mode === "shared") return mode;
  throw new TypeError(
    `Cannot use 'mode': it must be "exclusive" or "shared", but it is ${
      typeof mode === "string" ? JSON.stringify(mode) : describeType(mode)
    }`,
  );
}
