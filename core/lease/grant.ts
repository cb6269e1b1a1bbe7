/**
 * The interface between a strategy and the lease engine: a granted lock, and the requests that renew and release it.
 *
 * @module
 */
import type { Instant } from "../time/clock.ts";
import type { LockMode } from "../contract/distributed_lock.ts";
import { type LeaseLostReason, LockSetupError } from "../contract/errors.ts";
import type { CallOptions } from "./tracing.ts";

/**
 * The answer to a renewal:
 * - `"held"`: the lease goes on, and `validMs` is how long, in ms, it has left on the server;
 * - `"lost"`: the lease no longer holds the lock;
 * - `"unknown"`: there was no usable answer, so the engine asks again while lease time remains.
 */
export type RenewAnswer =
  | { state: "held"; validMs: number }
  | { state: "lost"; reason: LeaseLostReason }
  | { state: "unknown"; cause: unknown };

/**
 * The answer to a release:
 * - `"released"`: the lock was ours and is free now;
 * - `"gone"`: the lease no longer held the lock;
 * - `"refused"`: the service refuses until somebody changes a setting or a permission, so the lock stays
 *   held. `reason` is the end of an error message: why, and what to do;
 * - `"unknown"`: there was no usable answer, so the engine asks again. `isUnexecuted`: the request was surely not
 *   executed, so a later `"gone"` is not its work.
 */
export type ReleaseAnswer =
  | { state: "released" }
  | { state: "gone"; reason: LeaseLostReason }
  | { state: "refused"; reason: string; cause: unknown }
  | { state: "unknown"; cause: unknown; isUnexecuted?: boolean };

export function refusedRelease(
  lockName: string,
  { reason, cause }: Extract<ReleaseAnswer, { state: "refused" }>,
): LockSetupError {
  const message = `Cannot release lock ${JSON.stringify(lockName)}: ${reason}`;
  return new LockSetupError(message, lockName, { cause });
}

/**
 * A request of a lease. A strategy that cannot send it at once calls these methods; otherwise it counts as
 * sent when the strategy is called.
 */
export interface LeaseRequest {
  /**
   * When the lease is over without an answer, in monotonic ms: of the renewals that wait, the earliest is sent
   * first. 0 for releases that somebody waits for, which take turns with renewals; `Infinity` for clean-ups.
   */
  readonly byMs: number;
  /**
   * The request waits in this process for its turn. `withdraw` takes it out of the queue, and rejects it. Called
   * before the strategy's method returns.
   */
  onQueued(withdraw: () => void): void;
  /** Its turn has come. Returns whether it is still of use: else it must not be sent, and is rejected. */
  onTurn(): boolean;
}

/** Rejects a request that was never sent. Always the same: thousands of stack traces would take time. */
export const UNSENT: Error = new Error(
  "This process had too much to send: the request waited for its turn, and was not sent",
);

/** The requests of one lease. Each call sends one; the engine retries. A rejection counts as `"unknown"`. */
export interface LeaseActions {
  /**
   * Prolongs the lease to at least `ttlMs` from now. Must never shorten it, and never re-create a lock
   * that is gone. Left out where nothing has to be renewed.
   */
  renew?(ttlMs: number, request: LeaseRequest): Promise<RenewAnswer>;
  /**
   * Releases the lock if this lease still holds it. Answers at once if that needs no service. `isLost`: nobody has
   * asked for the release, which cleans up after a loss.
   */
  release(isLost: boolean, request: LeaseRequest): ReleaseAnswer | Promise<ReleaseAnswer>;
  /**
   * Called when the deadline is over, where this ends more than the one lease (ZooKeeper: the session and all its
   * leases). `cause` is why the last renewal had no usable answer, if that is so. Returns the reason of the loss.
   * Without this function it is `"unreachable"` if a renewal is unanswered, else `"expired"`.
   */
  lapsed?(cause: unknown): LeaseLostReason;
}

/** A lock that the service has granted, and the terms of the lease. */
export interface Grant extends Pick<CallOptions, "call" | "maxHoldMs"> {
  readonly name: string;
  readonly ownerId: string;
  /** Left out: `"exclusive"`. */
  readonly mode?: LockMode;
  readonly fencingToken: bigint;
  /** Both clocks when the granted request was sent. A later gap between them shows a suspension. */
  readonly sent: Instant;
  /**
   * When `validMs` starts to count, in monotonic ms, if not at `sent`: a waiter that is granted the
   * lock by a message sent its request long before.
   */
  readonly startMs?: number;
  /** The requested TTL in ms; `Infinity` where a lease has no time limit (memory, files). */
  readonly ttlMs: number;
  /** How long, in ms, it had left when the server answered: the TTL; less for a claim, or more for a takeover. */
  readonly validMs: number;
  readonly autoRenew: boolean;
  readonly outlivesDisposal?: boolean;
  /** Calls `renew` at this interval in ms to check the lease, whatever `autoRenew` says. */
  readonly watchEveryMs?: number;
}
