/**
 * The arguments of the scripts: what `ARGV` holds. The headers of the scripts say the same.
 *
 * @module
 */
import { type Owner, ownerValue } from "./owner_value.ts";

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

/** The contents of an ask. */
interface AskTerms {
  readonly owner: Owner;
  readonly ttlMs: number;
  readonly mode: { readonly kind: string };
  readonly inbox: string;
  readonly isCountable: boolean;
  readonly ticket: number;
}

/**
 * The arguments of `ask.lua`.
 *
 * @param notAfterMs The server time in ms after which the ask does nothing; 0 for no limit.
 */
export function askArguments(ask: AskTerms, notAfterMs: number): string[] {
  const { owner, ttlMs, mode, inbox, isCountable, ticket } = ask;
  const place = `${inbox} ${isCountable ? COUNTABLE : "0"} ${ticket}`;
  return [ownerValue(owner), String(ttlMs), String(notAfterMs), mode.kind, place];
}

/**
 * The arguments of `steal.lua`.
 *
 * @param notAfterMs As in an ask.
 * @param victimDigest The SHA-1 in hex of the owner value from which the lock is taken.
 */
export function stealArguments(
  { owner, ttlMs }: Pick<AskTerms, "owner" | "ttlMs">,
  notAfterMs: number,
  victimDigest: string,
): string[] {
  return [ownerValue(owner), String(ttlMs), String(notAfterMs), victimDigest];
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
