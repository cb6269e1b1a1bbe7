/**
 * The options of the calls that all strategies have, as tables. Those of constructors are in each strategy.
 *
 * @module
 */
import type {
  AcquireOptions,
  AttachableAcquireOptions,
  AttachOptions,
  DistributedLock,
  ListableLock,
  ListOptions,
  LockCapabilities,
  LockMode,
  QueryOptions,
  RequestOptions,
} from "./distributed_lock.ts";
import {
  callback,
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
  text,
  ttl,
} from "./options.ts";

export const ACQUIRE_OPTIONS: OptionTable<AcquireOptions> = {
  signal: signal(),
  waitMs: duration({ min: 0 }),
  mode: oneOf(["exclusive", "shared"]),
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

export function modeOf({ mode = "exclusive", limit }: AcquireOptions): LockMode {
  return limit === undefined ? mode : "shared";
}

/** Reads the options of `acquire()`: with those of `ATTACHABLE_OPTIONS` where the strategy can attach. */
export function readAcquireOptions(
  options: AttachableAcquireOptions,
  offered: LockCapabilities,
): AttachableAcquireOptions {
  const read: AttachableAcquireOptions = offered.attach
    ? readTable("acquire()", options, ATTACHABLE_OPTIONS)
    : readTable("acquire()", options as AcquireOptions, ACQUIRE_OPTIONS);
  const { ownerId, label, outlivesDisposal } = read;
  const mode = checkMode(read, offered);
  if (ownerId !== undefined && label !== undefined) {
    throw new TypeError("Cannot use 'label' with 'ownerId': such a lease shows no label");
  }
  if (mode === "shared" && (ownerId !== undefined || outlivesDisposal)) {
    const name = ownerId === undefined ? "outlivesDisposal" : "ownerId";
    throw new TypeError(`Cannot use '${name}' with a shared lease: ${NOT_ATTACHED}`);
  }
  return read.onWait === undefined ? read : { ...read, onWait: quiet(read.onWait) };
}

/** Nobody awaits an `onWait` that is an async function: its rejection must not end the process. */
function quiet(onWait: NonNullable<AcquireOptions["onWait"]>): AcquireOptions["onWait"] {
  return (info) => void Promise.resolve(onWait(info)).catch(() => {});
}

const NOT_ATTACHED = "no process could take it over, as attach() knows exclusive leases only";

export function readAttachOptions(options: AttachOptions & Partial<AcquireOptions>): AttachOptions {
  // Also from a getter or a prototype it must not be ignored: the caller expects a shared lease.
  if (typeof options === "object" && options !== null && modeOf(options) === "shared") {
    throw new TypeError(`Cannot attach a shared lease: ${NOT_ATTACHED}`);
  }
  return readTable<AttachOptions, typeof ATTACH_OPTIONS>("attach()", options, ATTACH_OPTIONS);
}

/** Checks that `mode` and `limit` fit together, and that the strategy offers them. Returns the mode. */
function checkMode(options: AcquireOptions, offered: LockCapabilities): LockMode {
  const { mode, limit } = options;
  if (mode === "exclusive" && limit !== undefined) {
    throw new TypeError(
      `Cannot use 'limit' with mode "exclusive": an exclusive lock has one holder, so leave one of them out`,
    );
  }
  const asked = modeOf(options);
  if (asked === "exclusive") return asked;
  if (!offered.shared) {
    throw notSupported(
      'Cannot use the mode "shared": this strategy offers mode "exclusive" only, ' +
        "see its 'capabilities'",
    );
  }
  if (limit === undefined || offered.limit) return asked;
  throw notSupported(
    "Cannot use 'limit': this strategy offers none, see its 'capabilities'; " +
      'leave it out, or use mode "shared" without one',
  );
}

/** @param table The options of `request()` and of `acquire()`. */
export function readRequestOptions(
  options: RequestOptions,
  table: OptionTable<RequestOptions>,
): RequestOptions {
  const read: RequestOptions = readTable("request()", options, table);
  const { steal, ifAvailable, signal, waitMs } = read;
  if (steal && modeOf(read) === "shared") {
    throw notSupported(
      "Cannot use 'steal' with a shared lease: a thief takes the lock for itself alone",
    );
  }
  if (steal && (ifAvailable || signal || waitMs !== undefined)) {
    throw notSupported(
      "Cannot use 'steal' with 'ifAvailable', 'signal' or 'waitMs': a steal never waits, so leave them out",
    );
  }
  return read;
}

export function readMaxWaiters(options: QueryOptions): number {
  return readTable("query()", options, QUERY_OPTIONS).maxWaiters;
}

export function isListable(locks: DistributedLock): locks is ListableLock {
  return locks.capabilities.list;
}

const LIST_OPTIONS = { prefix: text({}, "") } satisfies OptionTable<ListOptions>;

export function readPrefix(options: ListOptions): string {
  return readTable("list()", options, LIST_OPTIONS).prefix;
}
