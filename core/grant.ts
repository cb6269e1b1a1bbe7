/**
 * What a strategy passes to the lease engine: a granted lock, and what can be done with it.
 *
 * @module
 */
import { deadlineMs, type Instant } from "./clock.ts";
import type { LeaseLostReason } from "./errors.ts";

/** The answer to a renewal. `validMs` is what remains on the server after it. */
export type RenewAnswer =
  | { state: "held"; validMs: number }
  | { state: "lost"; reason: LeaseLostReason; cause?: unknown }
  | { state: "unknown"; cause: unknown };

/** The answer to a release. */
export type ReleaseAnswer =
  | { state: "released" }
  | { state: "gone"; reason: LeaseLostReason }
  | { state: "unknown"; cause: unknown };

/** The requests that a strategy sends for one of its leases. Each call is one attempt. */
export interface LeaseActions {
  /** Prolongs the lease to at least `ttlMs`; never shortens it, never re-creates it. */
  renew?(ttlMs: number): Promise<RenewAnswer>;
  /** Releases the lock if the lease still holds it. */
  release(): Promise<ReleaseAnswer>;
  /**
   * Called when the lease has run out by the clock, where that ends more than this lease (a session);
   * returns the reason of the loss. Without it the reason is `"expired"` or `"unreachable"`.
   */
  lapsed?(): LeaseLostReason;
}

/** A lock that the service has granted. */
export interface Grant {
  readonly name: string;
  readonly ownerId: string;
  readonly fencingToken: bigint;
  /** When the granted request was sent: the process was certainly not suspended then. */
  readonly sent: Instant;
  /** When `validMs` starts to count, in monotonic ms, if not at `sent`: for a grant by message. */
  readonly startMs?: number;
  /** The requested TTL in ms; `Infinity` where only a release ends a lease. */
  readonly ttlMs: number;
  /** What remained on the server after the request, in ms. */
  readonly validMs: number;
  readonly autoRenew: boolean;
  readonly maxHoldMs?: number | undefined;
  /** Whether the lease stays held when its instance is disposed. */
  readonly outlivesDisposal?: boolean;
  /** Calls `renew` at this interval in ms, whatever `autoRenew` says, to check the lease. */
  readonly watchEveryMs?: number;
}

/** The moment until which a grant is valid, in monotonic ms. */
export function grantDeadlineMs(
  { sent, startMs, ttlMs, validMs }: Pick<Grant, "sent" | "startMs" | "ttlMs" | "validMs">,
): number {
  return deadlineMs(startMs ?? sent.nowMs, ttlMs, validMs);
}
