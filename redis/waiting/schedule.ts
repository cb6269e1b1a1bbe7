/**
 * When a waiter asks again, and what a grant that came by message is worth. Pure.
 *
 * @module
 */
import type { Instant } from "../../core/clock.ts";
import type { Queued } from "../protocol/replies.ts";

/** How often in ms a process asks for each lock it waits for: renews the lease of its inbox (6 s). */
const HEARTBEAT_MS = 2_000;
/** How often in ms the first in line asks. */
const HEAD_POLL_MS = 500;
/** The same while the holder is not one of ours, and will not hand over. */
const FOREIGN_POLL_MS = 20;

/** How a process waits for a lock. */
export interface WaitMode {
  /** Whether grants reach it by message. */
  readonly listens: boolean;
  readonly claimMs: number;
}

/**
 * How long to pause after an answer before the foremost waiter of a process asks again, for all.
 *
 * @param random A number from 0 to 1, so that processes do not ask in step.
 */
export function nextAskMs(
  answer: Pick<Queued, "position" | "leftMs" | "holderIsOurs">,
  { listens, claimMs }: WaitMode,
  random: number,
): number {
  const isHead = answer.position === 1;
  let delayMs = HEARTBEAT_MS * (0.9 + 0.1 * random);
  if (!listens) delayMs = Math.min(delayMs, claimMs / 3);
  if (isHead) delayMs = Math.min(delayMs, answer.holderIsOurs ? HEAD_POLL_MS : FOREIGN_POLL_MS);
  if (answer.leftMs >= 0) {
    // A dead holder tells nobody. The first in line is to come first.
    delayMs = Math.min(delayMs, answer.leftMs + (isHead ? 1 : 20 + 20 * random));
  }
  return delayMs;
}

/** A moment on both clocks: the server's time in an answer, and when its request was sent. */
export interface ClockMapping {
  readonly sent: Instant;
  readonly serverMs: number;
}

/**
 * From when a granted claim counts, in monotonic ms, without another round trip. The request of the
 * mapping was executed no earlier than it was sent, so the grant was made no earlier than that much
 * later; it was made before it was received; and 1 % is taken off for clocks that run apart.
 *
 * @param mapping The last answered ask on this connection, `null` if there is none.
 * @param firstSentMs When the first ask of this waiter was sent: the claim cannot be older.
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
