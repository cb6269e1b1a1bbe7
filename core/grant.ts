/**
 * What a strategy hands to the lease engine: a granted lock, and two functions.
 *
 * @module
 */
import { deadlineMs, type Instant } from "./clock.ts";
import type { LeaseLostReason } from "./errors.ts";

/** What the service says of a renewal. `validMs` is what remains on the server after it. */
export type RenewAnswer =
  | { state: "held"; validMs: number }
  | { state: "lost"; reason: LeaseLostReason; cause?: unknown }
  | { state: "unknown"; cause: unknown };

/** What the service says of a release. */
export type ReleaseAnswer =
  | { state: "released" }
  | { state: "gone"; reason: LeaseLostReason }
  | { state: "unknown"; cause: unknown };

/** What a strategy can do with a lease of its own. Each call is one attempt. */
export interface LeaseActions {
  /** Prolongs the lease to at least `ttlMs`; never shortens it, never re-creates it. */
  renew?(ttlMs: number): Promise<RenewAnswer>;
  /** Gives the lock back if the lease still has it. */
  release(): Promise<ReleaseAnswer>;
  /**
   * Told when the lease has run out by the clock; says what that means where it is more than the end
   * of this lease (a session's). `"expired"` or `"unreachable"` unless given.
   */
  lapsed?(): LeaseLostReason;
}

/** A lock that the service granted. */
export interface Grant {
  readonly name: string;
  readonly ownerId: string;
  readonly fencingToken: bigint;
  /** When the request that was granted went out: the last proof that the process was not suspended. */
  readonly sent: Instant;
  /** From when `validMs` counts, in monotonic ms, if not from `sent`: a grant that came by message. */
  readonly startMs?: number;
  /** The TTL that was asked for in ms; `Infinity` where only release ends a lease. */
  readonly ttlMs: number;
  /** What remained on the server after the request, in ms. */
  readonly validMs: number;
  readonly autoRenew: boolean;
  readonly maxHoldMs?: number | undefined;
  /** Whether the lease is not given back when its instance is disposed. */
  readonly outlivesDisposal?: boolean;
  /** Renew (look after) the lease at this interval in ms, whatever `autoRenew` says. */
  readonly watchEveryMs?: number;
}

/** Until when a grant is provable, in monotonic ms. */
export function grantDeadlineMs(
  { sent, startMs, ttlMs, validMs }: Pick<Grant, "sent" | "startMs" | "ttlMs" | "validMs">,
): number {
  return deadlineMs(startMs ?? sent.nowMs, ttlMs, validMs);
}
