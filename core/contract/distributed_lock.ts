/**
 * The interfaces that every strategy implements and that users program against. No code, no errors.
 *
 * @module
 */

/** The guarantees and features of a strategy, for code that must run on more than one strategy. */
export interface LockCapabilities {
  /**
   * Which waiters are served first in, first out: all of them (`"global"`), those of one instance
   * (`"process"`), or none (`"none"`).
   */
  readonly fifo: "global" | "process" | "none";
  /**
   * The event that frees the lock if its holder vanishes: only a release (`"release"`), the end of its
   * process (`"process-death"`), the end of the TTL (`"ttl"`), or of the session (`"session"`).
   */
  readonly endsBy: "release" | "process-death" | "ttl" | "session";
  /** Whether `request(name, { steal: true }, …)` works. */
  readonly steal: boolean;
  /** Whether a lease can be re-created from its owner id. See {@linkcode AttachableLock}. */
  readonly attach: boolean;
  /** Whether `mode: "shared"` works. */
  readonly shared: boolean;
  /** Whether `limit` works. */
  readonly limit: boolean;
  /** Whether names can be listed. See {@linkcode ListableLock}. */
  readonly list: boolean;
}

/** How a lock is held: by one holder alone (`"exclusive"`), or shared by any number (`"shared"`), never both. */
export type LockMode = "exclusive" | "shared";

/** The position of a waiter in the queue. A strategy leaves out the parts that it does not know. */
export interface WaitInfo {
  /** Position in the queue, 1 for the next in line. */
  position?: number;
  /** Number of waiters, including this one. */
  waiters?: number;
  /** How long, in ms, the holder's lease lives unless it is renewed. */
  remainingMs?: number;
}

/** A lease that is renewed late, as the option `onRenewalLate` gets it. */
export interface RenewalLate {
  /** The name of the lock. */
  readonly name: string;
  /** How long, in ms, the lease can still be proven: less than a third of its time. */
  readonly remainingMs: number;
}

/** Options of {@linkcode DistributedLock.acquire} and {@linkcode DistributedLock.tryAcquire}. */
export interface AcquireOptions {
  /**
   * Whether the lease excludes all others, or only exclusive ones. Waiters of both modes are served in their order: a
   * shared call waits behind a waiting exclusive one. There is no upgrade: a shared holder that asks for mode
   * `"exclusive"` waits for its own lease to end. `"shared"` is a `NotSupportedError` unless `capabilities.shared`.
   *
   * @default `"shared"` with a `limit`, else `"exclusive"`
   */
  mode?: LockMode | undefined;
  /**
   * How many shared holders there may be, this one included. A whole number from 1 to 10,000; it means mode
   * `"shared"`. Only this call obeys it, so pass the same limit everywhere. While it is the next in line and too many
   * hold the lock, all behind it wait. A `TypeError` with `mode: "exclusive"`; a `NotSupportedError` unless
   * `capabilities.limit`.
   *
   * @default no limit in mode `"shared"`
   */
  limit?: number | undefined;
  /** Ends the call, which then rejects with `signal.reason`. Has no effect on a lease once granted. */
  signal?: AbortSignal | undefined;
  /**
   * The longest time, in ms, to wait in the queue for the lock; 0 to try once. Then `tryAcquire()` resolves with
   * `null`, and `acquire()` rejects with a {@linkcode LockTimeoutError}. If the service does not answer at the end of
   * the wait, both reject with a {@linkcode LockUnavailableError} up to a second later; an outage that lasts for
   * `unavailableAfterMs` ends the wait before. Left out, `tryAcquire()` tries once, too, but for `unavailableAfterMs`
   * in an outage. (`signal: AbortSignal.timeout(ms)` rejects with a bare `TimeoutError`, also in an outage.)
   *
   * @default no limit in `acquire()`, one try in `tryAcquire()`
   */
  waitMs?: number | undefined;
  /**
   * A name for this call and its lease, which `query()` shows instead of the label of the instance. 1 to
   * 100 characters, no control characters.
   */
  label?: string | undefined;
  /**
   * Called when the caller starts to wait, and when its position has changed; by some strategies also when only the
   * number of waiters has. The strategy reports the changes that it learns of. `tryAcquire()` without a wait calls it
   * once before it resolves with `null`, without a position, if the strategy knows something of the holder or the
   * waiters. If it throws, the call rejects with its error. The promise of an async function is ignored.
   */
  onWait?: ((info: WaitInfo) => void) | undefined;
  /**
   * Whether the lease is renewed automatically until it is released. Strategies whose leases have
   * no TTL of their own (file, memory, ZooKeeper) ignore it.
   *
   * @default {true}
   */
  autoRenew?: boolean | undefined;
  /**
   * The longest time, in ms, that the lease may be held, renewed or not. Then it is lost with the
   * reason `"max-hold"` and released, so that a holder that hangs cannot block the others forever.
   *
   * @default no limit
   */
  maxHoldMs?: number | undefined;
}

/** Options of {@linkcode DistributedLock.query}. */
export interface QueryOptions {
  /**
   * How many waiters to list at most: a whole number from 0. A strategy may list fewer; `waiterCount` is
   * always the whole count. Redis lists 64 at most.
   *
   * @default {64}
   */
  maxWaiters?: number | undefined;
}

/** Options of {@linkcode DistributedLock.request}, named as in the Web Locks API. */
export interface RequestOptions extends AcquireOptions {
  /**
   * Whether to call the callback with `null`, instead of waiting, if somebody else holds the lock. With
   * `waitMs` it waits for so long first.
   *
   * @default {false}
   */
  ifAvailable?: boolean | undefined;
  /**
   * Whether to take the lock away from its holder, whose lease is lost with the reason `"stolen"`. If it is
   * shared, all its holders lose it. The callbacks of both may then run at the same time. The victim may
   * learn of it only at its next renewal: until then it believes in a lease that is gone. Excludes
   * `ifAvailable`, `signal`, `waitMs`, `mode: "shared"` and `limit`.
   *
   * @default {false}
   */
  steal?: boolean | undefined;
}

/**
 * One time-bounded hold of a lock.
 *
 * A lease is *provable* while no other process can have been granted the lock, except by a steal, or in shared mode
 * together with this one. It can stop being provable at any moment (the network fails, the process is suspended). So
 * code that runs under it watches {@linkcode Lease.signal}, calls {@linkcode Lease.throwIfLost} before each side
 * effect, and passes {@linkcode Lease.fencingToken} to the resource that it writes to.
 *
 * @example Usage
 * ```ts
 * import { MemoryLock } from "@holdfast/lock";
 * import { assertEquals } from "@std/assert";
 *
 * await using locks = new MemoryLock();
 * await using lease = await locks.acquire("orders:42");
 * lease.throwIfLost();
 * assertEquals(lease.name, "orders:42");
 * ```
 */
export interface Lease extends AsyncDisposable {
  /** The name of the lock. */
  readonly name: string;
  /** Identifies the lease; unguessable. A secret, since it is enough to release the lock. */
  readonly ownerId: string;
  /** Whether the lock is held by this lease alone, or shared with others. */
  readonly mode: LockMode;
  /**
   * Grows with every grant of this name. Resources reject tokens below the greatest they have seen. Those of shared
   * leases lie between the exclusive ones before and after, but say nothing about each other (two may be the same):
   * compare such a token with the greatest, and do not remember it (`check()` or `raise: false` of the fencing
   * helpers).
   */
  readonly fencingToken: bigint;
  /** Aborts with a {@linkcode LeaseLostError} when the lease is lost, but not when it is released. */
  readonly signal: AbortSignal;
  /**
   * How long, in ms, the lease is still provable: 0 when it is lost, released or unproven (the process
   * was suspended), `Infinity` for strategies without a TTL. Reads the clock.
   */
  readonly remainingMs: number;
  /** Whether the lease can be proven now: whether `throwIfLost()` would return. Reads the clock. */
  readonly isHeld: boolean;
  /**
   * Throws if the lease cannot be proven now. Reads the clock, so it is right even if the event loop was blocked.
   *
   * @throws {LeaseLostError} If the lease is lost or unproven.
   * @throws {LockError} If it was released.
   */
  throwIfLost(): void;
  /**
   * Prolongs the lease to at least `ttlMs` from now; never shortens it. Only needed with `autoRenew: false`, or to
   * get more time than the TTL. On ZooKeeper it only proves the session, whose time is fixed: read `remainingMs`.
   * Retries until the lease ends; with a `ttlMs`, each retry asks for the same end, counted from the call by the
   * clock, monotonic or wall, that has advanced further: after a step of the wall clock read `remainingMs`.
   *
   * @param ttlMs Time to live in ms; the TTL of the lease unless given.
   * @throws {LeaseLostError} If the lease is lost, or ends before the service answers.
   * @throws {LockError} If it was released.
   * @throws {TypeError} If `ttlMs` is not a number.
   * @throws {RangeError} If `ttlMs` is not a whole number from 10 to 2,147,483,647.
   */
  renew(ttlMs?: number): Promise<void>;
  /**
   * Releases the lock. Idempotent. Never throws because the lease is gone. Resolves at the latest when the lease
   * would have ended; if the service has not answered by then, the release is retried in the background.
   *
   * @returns `true` if the lease was valid until now, `false` if it was lost or released before. A lease
   * that ended because its lock manager is disposed counts as valid while the lock is kept for it.
   * @throws {LockSetupError} If the service refuses the release, for instance because the user has lost a permission.
   * The lock then stays held, until its TTL or its session ends. Disposal of a lease does not throw even then.
   */
  release(): Promise<boolean>;
}

/** A holder of a lock, as `query()` read it. A strategy leaves out what it does not know. */
export interface LockHolder {
  /** Whether it holds the lock alone. */
  mode: LockMode;
  /** The label of the call that holds the lock, or of its strategy instance. */
  label?: string;
  /** The fencing token of the lease. Redis does not know those of shared leases. */
  fencingToken?: bigint;
  /** How long, in ms, the lease lives unless it is renewed. */
  remainingMs?: number;
}

/** A waiter for a lock, as `query()` read it. A strategy leaves out what it does not know. */
export interface LockWaiter {
  /** Whether it wants the lock alone. */
  mode?: LockMode;
  /** The label of the call that waits, or of its strategy instance. */
  label?: string;
  /** How long, in ms, it has waited. */
  waitedMs?: number;
}

/** The holders and waiters of a lock when `query()` read them. They may have changed since. */
export interface LockSnapshot {
  /** The name of the lock. */
  name: string;
  /**
   * The holders; empty if the lock is free. Of shared holders the first 64 in the order in which they expire,
   * or in which they were granted the lock where leases do not expire.
   */
  holders: LockHolder[];
  /** The number of holders, including those that `holders` leaves out. */
  holderCount: number;
  /** The waiters, the next in line first. A strategy may leave out those of other processes. */
  waiters: LockWaiter[];
  /** The number of waiters, including those that `waiters` leaves out, as far as it is known. */
  waiterCount: number;
}

/**
 * The type of {@linkcode DistributedLock.request}: waits for the lock, runs a callback under it and releases
 * the lock when the callback has settled, like `navigator.locks.request()`.
 */
export interface RequestMethod<Options extends RequestOptions = RequestOptions> {
  /**
   * Waits for the lock and runs a callback under it.
   *
   * @throws {unknown} The error of the callback.
   * @throws {LeaseLostError} If the callback succeeded, but the lease was lost before it settled, also by disposal.
   */
  <T>(name: string, callback: (lease: Lease) => T | Promise<T>): Promise<T>;
  /**
   * The same with options.
   *
   * @throws {LockTimeoutError} If `waitMs` is over. The callback never runs then.
   * @throws {DOMException} `NotSupportedError` for a feature that the strategy does not offer, and for
   * combinations that the Web Locks API refuses (`steal` with `ifAvailable`, `signal` or `mode: "shared"`).
   */
  <T>(
    name: string,
    options: Options & { ifAvailable?: false | undefined },
    callback: (lease: Lease) => T | Promise<T>,
  ): Promise<T>;
  /**
   * The same with `ifAvailable: true`: the callback gets `null` if somebody else holds the lock.
   *
   * @throws {DOMException} As the form above.
   */
  <T>(
    name: string,
    options: Options,
    callback: (lease: Lease | null) => T | Promise<T>,
  ): Promise<T>;
}

/**
 * A manager of named locks, modelled on the Web Locks API (`navigator.locks`).
 *
 * A name is any well-formed Unicode string of 1 to 1,000 UTF-16 code units; names that differ in a single code unit
 * are different locks. Locks are not re-entrant: a second `acquire()` of a name waits for the first lease to end.
 *
 * Every method reads its options once, checks its arguments before any I/O, and rejects with
 * - a `TypeError` or `RangeError` if an argument is bad, or an option is unknown;
 * - a {@linkcode LockUnavailableError} in an outage: the service is out of reach, or of no use for now;
 * - a {@linkcode LockSetupError} if the lock cannot work as it is set up, or if the service refuses until
 *   somebody changes a setting or a permission;
 * - a `NotSupportedError` DOMException for a `mode` or `limit` that the strategy does not offer;
 * - an `InvalidStateError` DOMException after disposal.
 *
 * Disposal of the manager rejects its waiters with an `AbortError` at once, and ends all leases for their
 * holders with the reason `"disposed"`. It keeps the locks until the holders release them (`request()` does
 * so when the callback has settled), for half of `disposeTimeoutMs`. Then it releases what is left and
 * waits for clean-ups, all within `disposeTimeoutMs`. It never rejects.
 *
 * @example Usage
 * ```ts
 * import { type DistributedLock, MemoryLock } from "@holdfast/lock";
 * import { assertEquals } from "@std/assert";
 *
 * async function runOnce(locks: DistributedLock): Promise<string> {
 *   await using lease = await locks.tryAcquire("nightly-report");
 *   return lease === null ? "already running" : "done";
 * }
 *
 * await using locks = new MemoryLock();
 * assertEquals(await runOnce(locks), "done");
 * ```
 */
export interface DistributedLock extends AsyncDisposable {
  /** The guarantees and features of this strategy. */
  readonly capabilities: LockCapabilities;
  /**
   * Waits for the lock and acquires it. Only `waitMs` and `signal` limit the wait.
   *
   * @throws {LockTimeoutError} If `waitMs` is over and the service answers.
   * @throws {unknown} `signal.reason` if the signal aborts first.
   * @throws {LockUnavailableError} In an outage of the service.
   * @throws {LockSetupError} If the service refuses, and will refuse again.
   */
  acquire(name: string, options?: AcquireOptions): Promise<Lease>;
  /**
   * Acquires the lock if it is free now, or becomes free within `waitMs`.
   *
   * @returns The lease, or `null` if somebody else holds the lock, and only then. In mode `"shared"` it is
   * `null` if the lock is held exclusively, if another call waits for it, or if `limit` holders have it.
   * @throws {unknown} `signal.reason` if the signal aborts first.
   * @throws {LockUnavailableError} In an outage of the service.
   * @throws {LockSetupError} If the service refuses, and will refuse again.
   */
  tryAcquire(name: string, options?: AcquireOptions): Promise<Lease | null>;
  /** Runs a callback under the lock. See {@linkcode RequestMethod}. */
  readonly request: RequestMethod;
  /**
   * Reads the holders and the waiters of a lock, without any effect on them.
   *
   * @throws {LockUnavailableError} In an outage of the service.
   * @throws {LockSetupError} If the service refuses, and will refuse again.
   */
  query(name: string, options?: QueryOptions): Promise<LockSnapshot>;
}

/** Options of {@linkcode AttachableLock.attach}. */
export interface AttachOptions extends Pick<AcquireOptions, "autoRenew" | "maxHoldMs" | "signal"> {
  /**
   * The time to live, in ms, of this lease. If the owner id already holds the lock, its lease is prolonged
   * to this, but never shortened.
   *
   * @default the `ttlMs` of the instance
   */
  ttlMs?: number | undefined;
  /**
   * Whether the lock outlives the instance that acquired it. Disposal then ends the lease for its holder, but neither
   * waits for it nor releases it: the lock stays held until the TTL ends, or until {@linkcode AttachableLock.attach}
   * re-creates the lease, for instance after a restart. Excludes `mode: "shared"` and `limit`.
   *
   * @default {false}
   */
  outlivesDisposal?: boolean | undefined;
}

/** {@linkcode AcquireOptions} of a strategy that can attach. */
export interface AttachableAcquireOptions extends AcquireOptions, AttachOptions {
  /**
   * An owner id that the caller chooses, to find the lease again with {@linkcode AttachableLock.attach}. It must be
   * unguessable for everybody who may not release the lock. 1 to 500 UTF-16 code units without control characters. A
   * call under an id that holds the lock takes it over, as `attach()` does, and prolongs it. Of the calls of one
   * instance with the same id and lock only one asks at a time: until it has ended, another one rejects with a
   * {@linkcode LockError}, and sends nothing. Each call first waits until the service has answered the clean-up of
   * the one before. Excludes `label`, `mode: "shared"` and `limit`.
   */
  ownerId?: string | undefined;
}

/** {@linkcode RequestOptions} of a strategy that can attach. */
export interface AttachableRequestOptions extends RequestOptions, AttachableAcquireOptions {}

/** A strategy that can re-create a lease from its owner id, for instance after a restart. */
export interface AttachableLock extends DistributedLock {
  /**
   * As {@linkcode DistributedLock.acquire}, with the same errors, but also under an owner id that the caller chooses.
   *
   * @throws {LockError} If another call of this instance asks for the lock under the same owner id.
   */
  acquire(name: string, options?: AttachableAcquireOptions): Promise<Lease>;
  /**
   * As {@linkcode DistributedLock.tryAcquire}, with the same errors, but also under an owner id that the caller
   * chooses.
   *
   * @throws {LockError} If another call of this instance asks for the lock under the same owner id.
   */
  tryAcquire(
    name: string,
    options?: AttachableAcquireOptions,
  ): Promise<Lease | null>;
  /** Like {@linkcode DistributedLock.request}, also with the options of {@linkcode AttachableLock.acquire}. */
  readonly request: RequestMethod<AttachableRequestOptions>;
  /**
   * Re-creates the lease of a lock that `ownerId` still holds. The previous lease object, in whatever
   * process it is, is lost with the reason `"stolen"`, and the fencing token grows. A call of this instance
   * that asks for the lock or waits for it under that id ends with a {@linkcode LockError}. If `attach()`
   * fails, the lock is not released: it stays held until its TTL ends.
   *
   * @param ownerId The owner id under which the lock was acquired.
   * @returns The lease, or `null` if this owner id does not hold the lock now.
   * @throws {unknown} `signal.reason` if the signal aborts first.
   * @throws {TypeError|RangeError} If the owner id or an option is bad.
   * @throws {LockUnavailableError} In an outage of the service.
   * @throws {LockSetupError} If the service refuses, and will refuse again.
   */
  attach(
    name: string,
    ownerId: string,
    options?: AttachOptions,
  ): Promise<Lease | null>;
}

/** Options of {@linkcode ListableLock.list}. */
export interface ListOptions {
  /**
   * What the names begin with.
   *
   * @default {""}
   */
  prefix?: string | undefined;
}

/** A strategy that can list the names of its locks, for tools that show them. */
export interface ListableLock extends DistributedLock {
  /**
   * Lists the names of the locks that somebody holds. It may repeat one, miss one that is acquired or released
   * meanwhile, and list some that were held lately or that somebody waits for: `query()` knows. The order is
   * not known. A step of the iteration is one request; who stops early sends no more.
   *
   * @returns The names. The iteration rejects as `query()` does.
   * @throws {TypeError|RangeError} If an option is bad.
   * @throws {DOMException} `NotSupportedError` unless `capabilities.list`, `InvalidStateError` after disposal.
   */
  list(options?: ListOptions): AsyncIterable<string>;
}
