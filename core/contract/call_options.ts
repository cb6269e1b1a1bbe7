/**
 * The options of the calls that all strategies have, as tables. Those of constructors are in each strategy.
 *
 * @module
 */
import type {
  AcquireOptions,
  AttachableAcquireOptions,
  AttachOptions,
  LockCapabilities,
  LockMode,
  QueryOptions,
  RequestOptions,
} from "./distributed_lock.ts";
import {
  callback,
  checkOptions,
  count,
  duration,
  flag,
  holderLimit,
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
  mode: oneOf(["exclusive", "shared"], "exclusive"),
  limit: holderLimit(),
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
  ifAvailable: flag(false),
  steal: flag(false),
};

/** So many holders `query()` lists at most. */
export const MAX_HOLDERS = 64;

export const QUERY_OPTIONS = { maxWaiters: count(64) } satisfies OptionTable<QueryOptions>;

/** The mode that `mode` and `limit` ask for. */
export function modeOf({ mode = "exclusive", limit }: AcquireOptions): LockMode {
  return limit === undefined ? mode : "shared";
}

/** Checks the options of `acquire()` and `tryAcquire()`, but not whether the signal has aborted. */
export function checkAcquireOptions(options: AcquireOptions, offered: LockCapabilities): void {
  checkOptions("acquire()", options, ACQUIRE_OPTIONS);
  checkMode(options, offered);
}

/** The same for an `AttachableLock`. */
export function checkAttachableOptions(
  options: AttachableAcquireOptions,
  offered: LockCapabilities,
): void {
  checkOptions("acquire()", options, ATTACHABLE_OPTIONS);
  const { ownerId, label, outlivesDisposal } = options;
  if (ownerId !== undefined && label !== undefined) {
    throw new TypeError("Cannot use 'label' with 'ownerId': such a lease shows no label");
  }
  if (modeOf(options) === "shared" && (ownerId !== undefined || outlivesDisposal)) {
    const name = ownerId === undefined ? "outlivesDisposal" : "ownerId";
    throw new TypeError(`Cannot use '${name}' with a shared lease: ${NOT_ATTACHED}`);
  }
  checkMode(options, offered);
}

const NOT_ATTACHED = "no process could take it over, as attach() knows exclusive leases only";

/** The same for `attach()`. */
export function checkAttachOptions(options: AttachOptions & Partial<AcquireOptions>): void {
  // Also from a getter or a prototype it must not be ignored: the caller expects a shared lease.
  if (typeof options === "object" && options !== null && modeOf(options) === "shared") {
    throw new TypeError(`Cannot attach a shared lease: ${NOT_ATTACHED}`);
  }
  checkOptions("attach()", options, ATTACH_OPTIONS);
}

/** Checks that `mode` and `limit` fit together, and that the strategy offers them. */
function checkMode(options: AcquireOptions, offered: LockCapabilities): void {
  const { mode, limit } = options;
  if (mode === "exclusive" && limit !== undefined) {
    throw new TypeError(
      `Cannot use 'limit' with mode "exclusive": an exclusive lock has one holder, so leave one of them out`,
    );
  }
  if (modeOf(options) === "exclusive") return;
  if (!offered.shared) {
    throw notSupported(
      'Cannot use the mode "shared": this strategy offers mode "exclusive" only, ' +
        "see its 'capabilities'",
    );
  }
  if (limit === undefined || offered.limit) return;
  throw notSupported(
    "Cannot use 'limit': this strategy offers none, see its 'capabilities'; " +
      'leave it out, or use mode "shared" without one',
  );
}

/** Checks the options that `request()` adds. Unknown ones are ignored, as in Web Locks. */
export function checkRequestOptions(options: RequestOptions): void {
  checkOptions(null, options, REQUEST_OPTIONS);
  const { steal, ifAvailable, signal, waitMs } = options;
  if (steal && modeOf(options) === "shared") {
    throw notSupported(
      "Cannot use 'steal' with a shared lease: a thief takes the lock for itself alone",
    );
  }
  if (steal && (ifAvailable || signal || waitMs !== undefined)) {
    throw notSupported(
      "Cannot use 'steal' with 'ifAvailable', 'signal' or 'waitMs': a steal never waits, so leave them out",
    );
  }
}

/** Checks the options of `query()`. Returns how many waiters to list. */
export function readMaxWaiters(options: QueryOptions): number {
  return readTable("query()", options, QUERY_OPTIONS).maxWaiters;
}
