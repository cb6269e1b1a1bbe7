/**
 * The interfaces that every strategy implements and every user sees.
 *
 * @module
 */

/** What a strategy promises. Read it when code must run on more than one strategy. */
export interface LockCapabilities {
  /**
   * Who is served first in, first out: all waiters everywhere (`"global"`), those of one process
   * (`"process"`), or nobody (`"none"`).
   */
  readonly fifo: "global" | "process" | "none";
  /** What ends a lease whose holder vanished without releasing it. */
  readonly endsBy: "release" | "process-death" | "ttl" | "session";
  /** Whether `request(name, { steal: true }, …)` works. */
  readonly steal: boolean;
  /** Whether a lease can be re-created from its owner id, as {@linkcode AttachableLock} describes. */
  readonly attach: boolean;
  /** Whether `mode: "shared"` works. */
  readonly shared: boolean;
}

/** Where a waiter stands, as far as its strategy knows. */
export interface WaitInfo {
  /** Place in the queue, 1 for the next in line. */
  position?: number;
  /** How many wait, this one included. */
  waiters?: number;
}

/** Options of a lease, however it is taken. */
export interface LeaseOptions {
  /**
   * Whether the lease is renewed until it is released. Strategies without a TTL of their own per
   * lease (file, memory, ZooKeeper) have nothing to renew and ignore it.
   *
   * @default {true}
   */
  autoRenew?: boolean;
  /**
   * The longest time in ms that the lease may be held, renewed or not. At that moment it is lost
   * with the reason `"max-hold"` and released, so that a wedged holder cannot block the others for
   * ever. Unlimited unless given.
   */
  maxHoldMs?: number;
}

/** Options of {@linkcode DistributedLock.tryAcquire}. */
export interface TryAcquireOptions extends LeaseOptions {
  /** Ends the attempt; the promise then rejects with `signal.reason`. Never ends a granted lease. */
  signal?: AbortSignal;
  /**
   * The longest time in ms to wait for the lock. Not offered yet: every strategy rejects it with a
   * `NotSupportedError`. Until then `AbortSignal.timeout(ms)` bounds a wait.
   */
  waitMs?: number;
}

/** Options of {@linkcode DistributedLock.acquire}. */
export interface AcquireOptions extends TryAcquireOptions {
  /** Called when the caller starts to wait, and when the strategy learns of a new place. */
  onWait?: (info: WaitInfo) => void;
}

/** Options of {@linkcode DistributedLock.request}, named as in the Web Locks API. */
export interface RequestOptions extends AcquireOptions {
  /**
   * Only `"exclusive"` is offered by today's strategies; `"shared"` rejects with a
   * `NotSupportedError`.
   *
   * @default {"exclusive"}
   */
  mode?: "exclusive" | "shared";
  /**
   * Do not wait: the callback gets `null` if somebody else holds the lock.
   *
   * @default {false}
   */
  ifAvailable?: boolean;
  /**
   * Take the lock away from its holder, whose lease is lost with the reason `"stolen"`.
   *
   * @default {false}
   */
  steal?: boolean;
}

/**
 * One time-bounded hold of a lock.
 *
 * A lease is *provable* while no other process can have been granted the lock. It may stop being
 * provable at any moment (the network fails, the process is suspended), so code that runs under it
 * watches {@linkcode Lease.signal}, calls {@linkcode Lease.throwIfLost} before each effect, and
 * gives {@linkcode Lease.fencingToken} to the resource it writes to.
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
  /** The name of the lock that is held. */
  readonly name: string;
  /** Unique per lease and unguessable. A secret: whoever knows it can release the lock. */
  readonly ownerId: string;
  /** Grows with every grant of this name. A resource accepts `fence <= token` only. */
  readonly fencingToken: bigint;
  /**
   * Aborts with a {@linkcode LeaseLostError} when the lease is lost; never because of
   * {@linkcode Lease.release}.
   */
  readonly signal: AbortSignal;
  /**
   * How long in ms the lease is still provable: 0 once it is lost, released or unproven (the
   * process was suspended), `Infinity` for strategies without a TTL. Reads the clock.
   */
  readonly remainingMs: number;
  /**
   * Throws if the lease cannot be proven now. Reads the clock, so it is right even if the event
   * loop was blocked past the TTL and no timer has run yet.
   *
   * @throws {LeaseLostError} If the lease is lost or unproven.
   * @throws {LockError} If it was released.
   */
  throwIfLost(): void;
  /**
   * Prolongs the lease to at least `ttlMs` from now; never shortens it. Renewal is automatic unless
   * turned off, so this is for `autoRenew: false` and for a longer stretch. Retries while lease time
   * remains.
   *
   * @param ttlMs Time to live in ms; the strategy's own unless given.
   * @throws {LeaseLostError} If the lease is lost, or runs out before the service answers.
   * @throws {LockError} If it was released.
   * @throws {RangeError} If `ttlMs` is not a whole number of ms in the allowed range.
   */
  renew(ttlMs?: number): Promise<void>;
  /**
   * Gives the lock back. Idempotent, never throws because the lease is gone, and resolves at the
   * latest when the lease would have run out, even if the service does not answer.
   *
   * @returns `true` if the lease was ours until now, `false` if it was lost or released before.
   */
  release(): Promise<boolean>;
}

/** A holder of a lock, as `query()` saw it. Unknown parts are left out. */
export interface LockHolder {
  /** The label of the strategy instance that holds the lock. */
  label?: string;
  /** The fencing token of the lease. */
  fencingToken?: bigint;
  /** How long in ms the lease lives unless it is renewed. */
  remainingMs?: number;
}

/** A waiter of a lock, as `query()` saw it. Unknown parts are left out. */
export interface LockWaiter {
  /** The label of the strategy instance that waits. */
  label?: string;
  /** How long in ms it has waited. */
  waitedMs?: number;
}

/** The holders and the waiters of a lock, as `query()` saw them. Out of date the moment it is read. */
export interface LockSnapshot {
  /** The name of the lock. */
  name: string;
  /** The holders: at most one as long as all locks are exclusive, none if the lock is free. */
  holders: LockHolder[];
  /** The waiters, first in line first, as far as the strategy knows them. */
  waiters: LockWaiter[];
  /** The number of waiters, also of those that `waiters` leaves out. */
  waiterCount: number;
}

/** The two forms of {@linkcode DistributedLock.request}. */
export interface RequestMethod {
  /** Runs a callback under the lock. */
  <T>(name: string, callback: (lease: Lease) => T | Promise<T>): Promise<T>;
  /** The same with options. */
  <T>(
    name: string,
    options: RequestOptions,
    callback: (lease: Lease | null) => T | Promise<T>,
  ): Promise<T>;
}

/**
 * A manager of named locks, modelled on the Web Locks API (`navigator.locks`).
 *
 * A name is any well-formed Unicode string of 1 to 1,000 UTF-16 code units; names that differ in a
 * single code unit are different locks. Locks are not re-entrant. Every method checks its arguments
 * before any I/O and rejects with a `TypeError` or `RangeError` if they are bad, with a
 * {@linkcode LockUnavailableError} if the service is out of reach or refuses, and with an
 * `InvalidStateError` DOMException after disposal.
 *
 * Disposing the manager makes waiters reject with an `AbortError`, releases held leases and waits for
 * clean-ups, all within its `disposeTimeoutMs`. Disposal never rejects.
 *
 * @example Usage
 * ```ts
 * import { type DistributedLock, MemoryLock } from "@holdfast/lock";
 * import { assertEquals } from "@std/assert";
 *
 * async function runOnce(locks: DistributedLock): Promise<string> {
 *   await using lease = await locks.tryAcquire("nightly-report");
 *   return lease === null ? "somebody else is at it" : "done";
 * }
 *
 * await using locks = new MemoryLock();
 * assertEquals(await runOnce(locks), "done");
 * ```
 */
export interface DistributedLock extends AsyncDisposable {
  /** What this strategy promises. */
  readonly capabilities: LockCapabilities;
  /**
   * Waits until the lock is ours. The wait is bounded by `options.signal` only.
   *
   * @throws {unknown} `signal.reason` if the signal aborts first.
   * @throws {LockUnavailableError} If the service is out of reach or refuses.
   */
  acquire(name: string, options?: AcquireOptions): Promise<Lease>;
  /**
   * Takes the lock if it is free now.
   *
   * @returns The lease, or `null` only if somebody else holds the lock.
   * @throws {LockUnavailableError} If the service is out of reach or refuses.
   */
  tryAcquire(name: string, options?: TryAcquireOptions): Promise<Lease | null>;
  /**
   * Runs `callback` under the lock and releases it when the callback has settled, like
   * `navigator.locks.request()`.
   *
   * @returns What the callback returned.
   * @throws {LeaseLostError} If the lease was lost before the callback settled. The callback's own
   * error wins.
   */
  request<T>(name: string, callback: (lease: Lease) => T | Promise<T>): Promise<T>;
  /**
   * The same with options. With `ifAvailable: true` the callback gets `null` if somebody else holds
   * the lock.
   *
   * @throws {DOMException} `NotSupportedError` for what the strategy lacks, and for the combinations
   * that the Web Locks API refuses (`steal` with `ifAvailable` or `signal`).
   */
  request<T>(
    name: string,
    options: RequestOptions,
    callback: (lease: Lease | null) => T | Promise<T>,
  ): Promise<T>;
  /**
   * Tells who holds the lock and who waits, without touching it.
   *
   * @throws {LockUnavailableError} If the service is out of reach or refuses.
   */
  query(name: string): Promise<LockSnapshot>;
}

/** {@linkcode AcquireOptions} of a strategy that can attach. */
export interface AttachableAcquireOptions extends AcquireOptions {
  /**
   * An owner id of the caller's own making, to find the lease again with
   * {@linkcode AttachableLock.attach}. It must be unguessable for all who may not release the lock.
   * 1 to 500 UTF-16 code units without control characters. The same id asked twice in one instance is
   * one lease, on the terms (TTL, renewal) of the call that took it.
   */
  ownerId?: string;
  /**
   * Time to live in ms of this lease, the strategy's own unless given. A lease that is found, not
   * taken, is prolonged to it and never shortened.
   */
  ttlMs?: number;
  /**
   * Whether the lease outlives the instance that took it: disposal then lets go of it without giving
   * it back, so that it ends by its TTL, or is found again by {@linkcode AttachableLock.attach} after
   * a restart.
   *
   * @default {false}
   */
  outlivesDisposal?: boolean;
}

/** A strategy whose leases can be taken over by their owner id, after a restart for instance. */
export interface AttachableLock extends DistributedLock {
  /** As {@linkcode DistributedLock.acquire}, also under an owner id of the caller's making. */
  acquire(name: string, options?: AttachableAcquireOptions): Promise<Lease>;
  /** As {@linkcode DistributedLock.tryAcquire}, also under an owner id of the caller's making. */
  tryAcquire(
    name: string,
    options?: Omit<AttachableAcquireOptions, "onWait">,
  ): Promise<Lease | null>;
  /**
   * Re-creates the lease of a lock that `ownerId` still holds. The lease object that held it until
   * now, wherever it lives, is lost with the reason `"stolen"`, and the fencing token grows.
   * A call that ends without an answer gives nothing back: the lock stays held until its TTL.
   *
   * @returns The lease, or `null` if this owner id does not hold the lock now.
   * @throws {TypeError|RangeError} If the owner id or an option is bad.
   * @throws {LockUnavailableError} If the service is out of reach or refuses.
   */
  attach(
    name: string,
    ownerId: string,
    options?: Omit<AttachableAcquireOptions, "onWait" | "ownerId">,
  ): Promise<Lease | null>;
}
