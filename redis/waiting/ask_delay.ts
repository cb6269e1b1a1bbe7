/**
 * When a process asks the server again for a lock that it waits for. Pure.
 *
 * @module
 */
import type { Queued } from "../protocol/replies.ts";

/** How often in ms a process asks for a lock it waits for. Renews the lease of its inbox (6 s). */
const HEARTBEAT_MS = 2_000;
/** How often in ms the first in line asks. */
const HEAD_POLL_MS = 500;
/** The same in ms while another library holds the lock: it does not hand the lock over. */
const FOREIGN_POLL_MS = 20;

/** How a process waits. */
export interface WaitMode {
  /** Whether grants reach the process by message. */
  readonly listens: boolean;
  /** How long in ms a grant is valid until it is confirmed. */
  readonly claimMs: number;
}

/** What decides when to ask again: a part of the last answer. */
export type Place = Pick<Queued, "position" | "leftMs" | "holderIsOurs">;

/** The place of a waiter that is not first in line. */
export const BEHIND: Place = { position: Infinity, leftMs: -1, holderIsOurs: true };
/** The place of a waiter that may be first in line now. */
export const HEAD: Place = { position: 1, leftMs: -1, holderIsOurs: true };

/**
 * How long in ms to wait after an answer before a process asks again, for all its waiters.
 *
 * @param random A number from 0 to 1, so that processes do not ask at the same time.
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
    // A dead holder notifies nobody. The first in line asks before the others.
    delayMs = Math.min(delayMs, leftMs + (isHead ? 1 : 20 + 20 * random));
  }
  return delayMs;
}
