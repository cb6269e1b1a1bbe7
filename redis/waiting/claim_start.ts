/**
 * From when a grant that came by message counts, on this process's clock. Pure.
 *
 * @module
 */
import type { Instant } from "../../core/clock.ts";

/** An answer of the server: the server's time in it, and when its request was sent. */
export interface ClockMapping {
  readonly sent: Instant;
  readonly serverMs: number;
}

/**
 * The earliest moment, in monotonic ms, at which the server can have made a grant. Costs no round
 * trip: the server executed the request of the mapping after it was sent, and made the grant
 * `grantedServerMs - mapping.serverMs` later, but before the message was received. 1 % of the wait is
 * taken off, since the two clocks may run at different speeds.
 *
 * @param mapping The last answered ask on this connection; `null` if there is none.
 * @param firstSentMs When the first ask of this waiter was sent: the grant cannot be older.
 * @param grantedServerMs When the grant was made, on the server's clock.
 * @param receivedMs When its message was received.
 */
export function claimStartMs(
  mapping: ClockMapping | null,
  firstSentMs: number,
  grantedServerMs: number,
  receivedMs: number,
): number {
  if (mapping === null) return Math.min(firstSentMs, receivedMs);
  const waitedMs = grantedServerMs - mapping.serverMs;
  return Math.min(mapping.sent.nowMs + waitedMs - Math.max(0, waitedMs) * 0.01, receivedMs);
}
