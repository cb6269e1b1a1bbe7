/**
 * When a grant that arrived as a message was made, in this process's time. Pure.
 *
 * @module
 */
import type { Instant } from "../../core/time/clock.ts";

/** Maps the server's clock to ours: the server time in an answer, and when its request was sent. */
export interface ClockMapping {
  readonly sent: Instant;
  readonly serverMs: number;
}

/**
 * The earliest moment, in monotonic ms, at which the server can have made a grant. Until the waiter has
 * confirmed it, the grant is a short claim. A claim that is counted from this moment ends here before it
 * ends on the server, so the waiter need not ask the server how much of it remains.
 *
 * The server executed the request of the mapping after it was sent, and made the grant
 * `grantedServerMs - mapping.serverMs` later, but before its message was received. 1 % of that
 * interval is subtracted, since the two clocks may run at different speeds. (If the grant was made
 * before that answer, the interval is negative, and nothing is subtracted.)
 *
 * @param mapping The last answered ask on this connection; `null` if there is none.
 * @param firstSentMs When the waiter sent its first ask, in monotonic ms. It counts if there is no
 * mapping: the grant cannot be older.
 * @param grantedServerMs When the grant was made, in ms of the server's clock.
 * @param receivedMs When the message was received, in monotonic ms.
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
