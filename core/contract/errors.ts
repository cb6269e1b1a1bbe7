/**
 * Identifies an error in logs and across processes:
 * - `"ERR_LOCK"`: any other error of a lock;
 * - `"ERR_LEASE_LOST"`: {@linkcode LeaseLostError};
 * - `"ERR_LEASE_RELEASED"`: the lease was used after its release;
 * - `"ERR_LOCK_SETUP"`: {@linkcode LockSetupError};
 * - `"ERR_LOCK_TIMEOUT"`: {@linkcode LockTimeoutError};
 * - `"ERR_LOCK_UNAVAILABLE"`: {@linkcode LockUnavailableError}.
 *
 * A call after disposal, one that waited until then, and a feature that a strategy lacks reject with a
 * `DOMException`. It has no such code: its `name` is `"InvalidStateError"`, `"AbortError"` or `"NotSupportedError"`.
 */
export type LockErrorCode =
  | "ERR_LOCK"
  | "ERR_LEASE_LOST"
  | "ERR_LEASE_RELEASED"
  | "ERR_LOCK_SETUP"
  | "ERR_LOCK_TIMEOUT"
  | "ERR_LOCK_UNAVAILABLE";

/** The brand of each error class: a symbol that is the same in all copies of this package. */
const BRANDS = new WeakMap<object, symbol>();

/** Puts a brand on the errors of a class and of its subclasses. */
function brand(errorClass: { readonly prototype: object }, name: string): void {
  const symbol = Symbol.for(`@holdfast/lock/${name}`);
  BRANDS.set(errorClass, symbol);
  Object.defineProperty(errorClass.prototype, symbol, { value: true });
}

/**
 * Base of all errors that a lock reports. Bad arguments are a `TypeError` or `RangeError` instead. `instanceof` also
 * recognises errors that another copy of this package created.
 *
 * @example Usage
 * ```ts
 * import { LeaseLostError, LockError } from "@holdfast/lock";
 * import { assertEquals, assertInstanceOf } from "@std/assert";
 *
 * const error = new LeaseLostError("orders:42", "expired");
 * assertInstanceOf(error, LockError);
 * assertEquals(error.code, "ERR_LEASE_LOST");
 * ```
 */
export class LockError extends Error {
  /** The name of the lock, if the error concerns a single one. */
  readonly lockName: string | undefined;
  /** Identifies the kind of error. */
  readonly code: LockErrorCode;
  /** The name of the class. */
  override readonly name: string = "LockError";

  /**
   * Creates an error.
   *
   * @param message What could not be done, why, and what to do. Must not contain a password or a whole owner id.
   * @param options The code (`"ERR_LOCK"` unless given), and the options of `Error`.
   */
  constructor(
    message: string,
    lockName?: string,
    options: ErrorOptions & { code?: LockErrorCode } = {},
  ) {
    const { code = "ERR_LOCK", ...rest } = options;
    super(message, rest);
    this.lockName = lockName;
    this.code = code;
  }

  static {
    brand(this, "LockError");
  }

  /**
   * Makes `instanceof` compare brands, since a program may contain two copies of this package (from
   * npm and from JSR, or in two versions). For a subclass that a user defines it works as usual.
   */
  static override [Symbol.hasInstance](value: unknown): boolean {
    const symbol = BRANDS.get(this);
    if (symbol === undefined) return Function.prototype[Symbol.hasInstance].call(this, value);
    return typeof value === "object" && value !== null && symbol in value;
  }
}

/**
 * Why a lease was lost:
 * - `"expired"`: its TTL ran out, or the service no longer knows it;
 * - `"stolen"`: somebody else holds the lock now, or an administrator took it away;
 * - `"unreachable"`: the service did not answer in time, so the lease can no longer be proven;
 * - `"session-expired"`: the session that it belongs to is over (ZooKeeper);
 * - `"max-hold"`: it was held for `maxHoldMs`;
 * - `"disposed"`: its lock manager was disposed. The lock is kept for a while, so that the holder can stop.
 */
export type LeaseLostReason =
  | "expired"
  | "stolen"
  | "unreachable"
  | "session-expired"
  | "max-hold"
  | "disposed";

const LOSS: Record<LeaseLostReason, string> = {
  "expired": "it expired",
  "stolen": "it was stolen, or an administrator took it away",
  "unreachable": "the service does not answer, so the lease cannot be proven",
  "session-expired": "its session expired",
  "max-hold": "it was held for 'maxHoldMs'",
  "disposed": "its lock manager was disposed",
};

/**
 * The lease is lost or cannot be proven: another process may hold the lock. Stop the work that the lock protects.
 *
 * @example Usage
 * ```ts
 * import { LeaseLostError } from "@holdfast/lock";
 * import { assertEquals } from "@std/assert";
 *
 * const error = new LeaseLostError("orders:42", "stolen");
 * assertEquals(error.reason, "stolen");
 * assertEquals(error.lockName, "orders:42");
 * ```
 */
export class LeaseLostError extends LockError {
  /** Why the lease was lost. */
  readonly reason: LeaseLostReason;
  /** The name of the class. */
  override readonly name = "LeaseLostError";

  static {
    brand(this, "LeaseLostError");
  }

  /** Creates an error. */
  constructor(lockName: string, reason: LeaseLostReason, options?: ErrorOptions) {
    const message = `Lost the lease on lock ${JSON.stringify(lockName)} (${LOSS[reason]}): ` +
      "stop the work that the lock protects";
    super(message, lockName, { ...options, code: "ERR_LEASE_LOST" });
    this.reason = reason;
  }
}

/**
 * An outage: the service is out of reach, or of no use for now (it starts, fails over, is full or busy), so nothing
 * is known about the lock. A later call may succeed. This never means that somebody else holds the lock.
 *
 * @example Usage
 * ```ts
 * import { LockUnavailableError } from "@holdfast/lock";
 * import { assertEquals } from "@std/assert";
 *
 * const error = new LockUnavailableError("Cannot reach Redis", "orders:42");
 * assertEquals(error.name, "LockUnavailableError");
 * ```
 */
export class LockUnavailableError extends LockError {
  /** The name of the class. */
  override readonly name = "LockUnavailableError";

  static {
    brand(this, "LockUnavailableError");
  }

  /**
   * Creates an error.
   *
   * @param message What could not be done, why, and what to do.
   */
  constructor(message: string, lockName?: string, options?: ErrorOptions) {
    super(message, lockName, { ...options, code: "ERR_LOCK_UNAVAILABLE" });
  }
}

/**
 * The lock cannot work as it is set up: the client is of the wrong kind or was never connected, the service refuses
 * the credentials or denies a permission, or the runtime lacks a feature. A retry does not help until that is
 * changed. This never means that the service is out of reach, nor that somebody else holds the lock.
 *
 * @example Usage
 * ```ts
 * import { LockSetupError, LockUnavailableError } from "@holdfast/lock";
 * import { assert, assertEquals } from "@std/assert";
 *
 * const error = new LockSetupError("Cannot use the Redis client: it was never connected");
 * assertEquals(error.code, "ERR_LOCK_SETUP");
 * assert(!(error instanceof LockUnavailableError));
 * ```
 */
export class LockSetupError extends LockError {
  /** The name of the class. */
  override readonly name = "LockSetupError";

  static {
    brand(this, "LockSetupError");
  }

  /**
   * Creates an error.
   *
   * @param message What cannot be used, why, and what to do.
   */
  constructor(message: string, lockName?: string, options?: ErrorOptions) {
    super(message, lockName, { ...options, code: "ERR_LOCK_SETUP" });
  }
}

/**
 * `waitMs` is over, and somebody else had the lock, perhaps until just now. The service has answered at the end of
 * the wait: in an outage the error is a {@linkcode LockUnavailableError} instead.
 *
 * @example Usage
 * ```ts
 * import { LockTimeoutError, MemoryLock } from "@holdfast/lock";
 * import { assertEquals, assertRejects } from "@std/assert";
 *
 * await using locks = new MemoryLock({ label: "billing-3" });
 * await using _lease = await locks.acquire("orders:42");
 * const error = await assertRejects(
 *   () => locks.acquire("orders:42", { waitMs: 50 }),
 *   LockTimeoutError,
 * );
 * assertEquals([error.lockName, error.holderLabel], ["orders:42", "billing-3"]);
 * ```
 */
export class LockTimeoutError extends LockError {
  /** How long, in ms, the call has waited. */
  readonly waitedMs: number;
  /** The label of the holder, if there was one at the end of the wait and its label is known. */
  readonly holderLabel: string | undefined;
  /** The name of the class. */
  override readonly name = "LockTimeoutError";

  static {
    brand(this, "LockTimeoutError");
  }

  /**
   * Creates an error.
   *
   * @param waitedMs How long, in ms, the call has waited.
   * @param holderLabel The label of the holder, if it is known. Never an owner id.
   */
  constructor(lockName: string, waitedMs: number, holderLabel?: string, options?: ErrorOptions) {
    // Without a label there may be no holder either: the lock may have become free just now.
    const reason = holderLabel === undefined
      ? "somebody else had it"
      : `${JSON.stringify(holderLabel)} holds it`;
    const message = `Cannot acquire lock ${JSON.stringify(lockName)} within ${waitedMs} ms: ` +
      `${reason}; try again later, or with a longer 'waitMs'`;
    super(message, lockName, { ...options, code: "ERR_LOCK_TIMEOUT" });
    this.waitedMs = waitedMs;
    this.holderLabel = holderLabel;
  }
}
