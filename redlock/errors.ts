import type { RedlockClient } from "./settings.ts";

/** The outcome of an attempt on one server. */
export interface ExecutionStats {
  /** The number of servers: 1. */
  readonly membershipSize: number;
  /** How many servers must agree: 1. */
  readonly quorumSize: number;
  /** The clients of the servers that agreed. */
  readonly votesFor: Set<RedlockClient>;
  /** The clients of the others, with the error of each. */
  readonly votesAgainst: Map<RedlockClient, Error>;
}

/** What `release()` resolves with. */
export interface ExecutionResult {
  /** The outcome. */
  readonly attempts: readonly Promise<ExecutionStats>[];
  /** When the call began, in ms since the epoch. */
  readonly start: number;
}

/**
 * Somebody else holds one of the resources, or the lock was lost before.
 *
 * @example Usage
 * ```ts
 * import { ResourceLockedError } from "@holdfast/lock/redlock";
 * import { assertEquals } from "@std/assert";
 *
 * assertEquals(new ResourceLockedError("locked").name, "ResourceLockedError");
 * ```
 */
export class ResourceLockedError extends Error {
  /** The name of the class. */
  override readonly name = "ResourceLockedError";
}

/**
 * The call has failed: a resource was locked until the end of the wait, the lock was lost before, or Redis cannot be
 * reached or used. `votesAgainst` of its attempts says which, and `cause` is the error of this package.
 *
 * @example Usage
 * ```ts
 * import { ExecutionError } from "@holdfast/lock/redlock";
 * import { assertEquals } from "@std/assert";
 *
 * assertEquals(new ExecutionError("failed", []).attempts, []);
 * ```
 */
export class ExecutionError extends Error {
  /** As many outcomes as redlock would make attempts, all the same: there is one wait in a queue, and no retry. */
  readonly attempts: readonly Promise<ExecutionStats>[];
  /** The name of the class. */
  override readonly name = "ExecutionError";

  /** Creates an error: what could not be done, the outcomes, and the options of `Error`. */
  constructor(
    message: string,
    attempts: readonly Promise<ExecutionStats>[],
    options?: ErrorOptions,
  ) {
    super(message, options);
    this.attempts = attempts;
  }
}
