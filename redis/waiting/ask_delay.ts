/**
 * When a process asks the server again for a lock that its waiters wait for. Pure: no timers here.
 *
 * @module
 */
import type { Queued } from "../protocol/replies.ts";

/** How often in ms a process asks at least. Each ask renews the 6 s for which its inbox counts as alive. */
const HEARTBEAT_MS = 2_000;
/** How often in ms the process of the first waiter in the queue asks. */
const HEAD_POLL_MS = 500;
/** The same in ms while another library holds the lock: its release notifies nobody. */
const FOREIGN_POLL_MS = 20;

/** How a process learns of grants. */
export interface WaitMode {
  /** Whether the process is subscribed to its inbox, so that it is notified of grants. */
  readonly listens: boolean;
  /** How long in ms a grant lasts unless the waiter confirms it. */
  readonly claimMs: number;
}

/** The parts of the last answer that decide when to ask again. A negative `leftMs` is unknown. */
export type Place = Pick<Queued, "position" | "leftMs" | "holderIsOurs">;

/** The place of a waiter that is not first in line. */
export const BEHIND: Place = { position: Infinity, leftMs: -1, holderIsOurs: true };
/** The place of a waiter that may have become the first in line. */
export const HEAD: Place = { position: 1, leftMs: -1, holderIsOurs: true };

/**
 * How long in ms a process waits after an answer before it asks again, for all its waiters of the lock.
 *
 * @param place The place of its foremost waiter, and how much time its holder has left.
 * @param mode How the process learns of grants. Without messages it must ask within each claim.
 * @param random A number from 0 to 1: spreads processes that would ask at the same moment.
 */
export function nextAskDelayMs(
  { position, leftMs, holderIsOurs }: Place,
  { listens, claimMs }: WaitMode,
  random: number,
): number {
  const isHead = position === 1;
  let delayMs = HEARTBEAT_MS * (0.9 + 0.1 * random);
  if (!listens) delayMs = Math.min(delayMs, claimMs / 3);
  if (isHead) delayMs = Math.min(delayMs, holderIsOurs ? HEAD_POLL_MS : FOREIGN_POLL_MS);
  if (leftMs >= 0) {
    // A dead holder notifies nobody, so ask once its lock has expired: the first in line before others.
    delayMs = Math.min(delayMs, leftMs + (isHead ? 1 : 20 + 20 * random));
  }
  return delayMs;
}
