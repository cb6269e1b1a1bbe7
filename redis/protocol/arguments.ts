/**
 * The arguments of the scripts: what `ARGV` holds. The headers of the scripts say the same.
 *
 * @module
 */
import type { LockKeys } from "./keys.ts";

/** How long in ms after it was sent the server executes an ask. A later copy of it does nothing. */
export const ASK_LIFE_MS = 1_000;
/** How long in ms a tombstone refuses earlier asks: no copy of them is executed later than that. */
export const TOMBSTONE_MS: number = 2 * ASK_LIFE_MS;
/** Longest claim in ms: how long a grant from the queue lasts unless the waiter confirms it. */
export const MAX_CLAIM_MS = 3_000;

/** Mode of an ask: wait in the queue. */
export const MODE_WAIT = "wait";
/** Mode of an ask: extend a lock that the owner id holds already. */
export const MODE_ATTACH = "attach";
/** In an ask: `PUBSUB NUMSUB` counts the subscribers of its inbox. */
export const COUNTABLE = "1";
/** In a leave: the next waiter becomes the holder. */
export const HANDOFF = "handoff";
/** In a leave: the next waiter is notified that the lock is free. */
export const FREE = "free";
/** In a leave: a lock that the caller holds stays held. */
export const KEEP = "keep";

/** How a call asks for the lock: the modes of `ask.lua`, or by `steal.lua`. */
export type AskMode = "wait" | "try" | "attach" | "steal";

/** The inbox that gets the grant message. */
export interface AskInbox {
  readonly id: string;
  /** Whether `PUBSUB NUMSUB` counts its subscriber. */
  readonly isCountable: boolean;
}

/** What a call asks for. */
export interface Ask {
  readonly keys: LockKeys;
  /** The whole owner value. */
  readonly value: string;
  readonly ttlMs: number;
  readonly mode: AskMode;
  /** Of a steal: the SHA-1 in hex of the owner value from which the lock is taken. */
  readonly victimDigest: string;
  /** The ticket of the first answer; 0 before that. */
  readonly ticket: number;
  /** Whether the call still wants the lock. */
  readonly isWanted: boolean;
}

/**
 * The arguments of `ask.lua`.
 *
 * @param notAfterMs The server time in ms after which the ask does nothing; 0 for no limit.
 */
export function askArguments(
  { value, ttlMs, mode, ticket }: Pick<Ask, "value" | "ttlMs" | "mode" | "ticket">,
  { id, isCountable }: AskInbox,
  notAfterMs: number,
): string[] {
  const inbox = `${id} ${isCountable ? COUNTABLE : "0"} ${ticket}`;
  return [value, String(ttlMs), String(notAfterMs), mode, inbox];
}

/** The arguments of `steal.lua`. */
export function stealArguments(
  { value, ttlMs, victimDigest }: Pick<Ask, "value" | "ttlMs" | "victimDigest">,
  notAfterMs: number,
): string[] {
  return [value, String(ttlMs), String(notAfterMs), victimDigest];
}

/**
 * The arguments of `leave.lua`.
 *
 * @param value The caller's owner value.
 * @param tombstoneMs How long in ms asks of this value are refused from now on; 0 for not at all.
 * @param handoff Whether the next waiter becomes the holder; otherwise it is notified to race.
 * @param keepsLock Whether a lock that the caller holds stays held.
 */
export function leaveArguments(
  value: string,
  tombstoneMs: number,
  handoff: boolean,
  keepsLock: boolean,
): string[] {
  const args = [value, String(tombstoneMs), handoff ? HANDOFF : FREE];
  if (keepsLock) args.push(KEEP);
  return args;
}
