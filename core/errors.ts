/**
 * The errors of every strategy. Bad arguments are `TypeError` and `RangeError` instead.
 *
 * @module
 */

/**
 * Base of all errors that a lock reports.
 *
 * @example Usage
 * ```ts
 * import { LeaseLostError, LockError } from "@holdfast/lock";
 * import { assertInstanceOf } from "@std/assert";
 *
 * assertInstanceOf(new LeaseLostError("orders:42", "expired"), LockError);
 * ```
 */
export class LockError extends Error {
  /** The name of the lock, where the error concerns one. */
  readonly lockName: string | undefined;
  /** The name of the class. */
  override readonly name: string = "LockError";

  /**
   * Creates an error.
   *
   * @param message What happened. Never holds a password or a whole owner id.
   * @param lockName The name of the lock, if the error concerns one.
   * @param options As for `Error`.
   */
  constructor(message: string, lockName?: string, options?: ErrorOptions) {
    super(message, options);
    this.lockName = lockName;
  }
}

/**
 * Why a lease was lost:
 * - `"expired"`: its time ran out, or the service no longer has it;
 * - `"stolen"`: somebody else has the lock now, or an administrator took it away;
 * - `"unreachable"`: the service stopped answering and the lease cannot be proven any longer;
 * - `"session-expired"`: the session that carried it ended (ZooKeeper);
 * - `"max-hold"`: it was held for `maxHoldMs`.
 */
export type LeaseLostReason = "expired" | "stolen" | "unreachable" | "session-expired" | "max-hold";

const LOSS: Record<LeaseLostReason, string> = {
  "expired": "it ran out",
  "stolen": "it was taken away",
  "unreachable": "the service does not answer and the lease cannot be proven",
  "session-expired": "its session expired",
  "max-hold": "it was held for 'maxHoldMs'",
};

/**
 * The lease is no longer provable: stop what was done under it.
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

  /**
   * Creates an error.
   *
   * @param lockName The name of the lock.
   * @param reason Why the lease was lost.
   * @param options As for `Error`.
   */
  constructor(lockName: string, reason: LeaseLostReason, options?: ErrorOptions) {
    super(`Lost the lease on ${JSON.stringify(lockName)}: ${LOSS[reason]}`, lockName, options);
    this.reason = reason;
  }
}

/**
 * The service is out of reach or refuses, so nothing is known about the lock. Never means that
 * somebody holds it.
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
}

/**
 * Too few of several independent servers agreed.
 *
 * @example Usage
 * ```ts
 * import { QuorumError } from "@holdfast/lock";
 * import { assertEquals } from "@std/assert";
 *
 * const error = new QuorumError("Cannot reach a quorum of 2 of 3 nodes", "orders:42", [
 *   new Error("Connection refused"),
 *   new Error("Connection refused"),
 * ]);
 * assertEquals(error.errors.length, 2);
 * ```
 */
export class QuorumError extends LockError {
  /** One error for each node that failed. */
  readonly errors: readonly unknown[];
  /** The name of the class. */
  override readonly name = "QuorumError";

  /**
   * Creates an error.
   *
   * @param message What happened.
   * @param lockName The name of the lock.
   * @param errors One error for each node that failed.
   * @param options As for `Error`.
   */
  constructor(
    message: string,
    lockName: string,
    errors: readonly unknown[],
    options?: ErrorOptions,
  ) {
    super(message, lockName, options);
    this.errors = errors;
  }
}
