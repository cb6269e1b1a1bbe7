/**
 * The options of the calls that all strategies have, as tables. Those of constructors are in each strategy.
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
import {
  callback,
  count,
  duration,
  flag,
  label,
  notSupported,
  oneOf,
  type OptionTable,
  OWNER_ID,
  readTable,
  signal,
  ttl,
} from "./options.ts";

export const ACQUIRE_OPTIONS: OptionTable<AcquireOptions> = {
  signal: signal(),
  waitMs: duration({ min: 0 }),
  label: label(),
  autoRenew: flag(true),
  maxHoldMs: duration(),
  onWait: callback(),
};

const ATTACH_OPTIONS: OptionTable<AttachOptions> = {
  signal: signal(),
  ttlMs: ttl(),
  autoRenew: flag(true),
  maxHoldMs: duration(),
  outlivesDisposal: flag(false),
};

export const ATTACHABLE_OPTIONS: OptionTable<AttachableAcquireOptions> = {
  ...ACQUIRE_OPTIONS,
  ...ATTACH_OPTIONS,
  ownerId: OWNER_ID,
};

/** The options that only `request()` has. */
export const REQUEST_OPTIONS: OptionTable<Omit<RequestOptions, keyof AcquireOptions>> = {
  mode: oneOf(["exclusive", "shared"], "exclusive"),
  ifAvailable: flag(false),
  steal: flag(false),
};

export const QUERY_OPTIONS = { maxWaiters: count(64) } satisfies OptionTable<QueryOptions>;

/** Reads the options of `acquire()` and `tryAcquire()`. */
export function readAcquireOptions(options: AcquireOptions): AcquireOptions {
  checkExclusive(options);
  return readTable("acquire()", options, ACQUIRE_OPTIONS);
}

/** The same for an `AttachableLock`. */
export function readAttachableOptions(options: AttachableAcquireOptions): AttachableAcquireOptions {
  checkExclusive(options);
  const read = readTable("acquire()", options, ATTACHABLE_OPTIONS);
  if (read.ownerId !== undefined && read.label !== undefined) {
    throw new TypeError("Cannot use 'label' with 'ownerId': such a lease shows no label");
  }
  return read;
}

/** The same for `attach()`. */
export function readAttachOptions(options: AttachOptions): AttachOptions {
  checkExclusive(options);
  return readTable("attach()", options, ATTACH_OPTIONS);
}

/** The same for `request()`. @param table Its options and those of `acquire()`. */
export function readRequestOptions(
  options: RequestOptions,
  table: OptionTable<RequestOptions>,
): RequestOptions {
  const read: RequestOptions = readTable("request()", options, table);
  const { steal, ifAvailable, signal, waitMs } = read;
  if (steal && (ifAvailable || signal || waitMs !== undefined)) {
    throw notSupported(
      "Cannot use 'steal' with 'ifAvailable', 'signal' or 'waitMs': a steal never waits, so leave them out",
    );
  }
  return read;
}

/** Reads the options of `query()`. Returns how many waiters to list. */
export function readMaxWaiters(options: QueryOptions): number {
  return readTable("query()", options, QUERY_OPTIONS).maxWaiters;
}

/**
 * Only `request()` has a mode. Here it must not be ignored, wherever the object has it from (a getter, its
 * prototype): the lease would be exclusive.
 */
function checkExclusive(options: object | null): void {
  const { mode } = (options ?? {}) as Pick<RequestOptions, "mode">;
  if (mode === undefined) return;
  REQUEST_OPTIONS.mode.check("'mode'", mode);
  if (mode !== "shared") return;
  throw notSupported('Cannot use the mode "shared": this strategy offers mode "exclusive" only');
}
