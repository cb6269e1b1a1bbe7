/**
 * The arguments of the scripts: what `ARGV` holds. The headers of the scripts say the same.
 *
 * @module
 */
import { type Owner, ownerValue } from "./owner_value.ts";

/** Mode of an ask: waits in the queue. */
export const MODE_WAIT = "wait";
/** Mode of an ask: extends a lock that its owner id holds already. */
export const MODE_ATTACH = "attach";
/** In an ask: `PUBSUB NUMSUB` counts the subscribers of its inbox. */
export const COUNTABLE = "1";
/** Of a leave: the next waiter becomes the holder. */
export const HANDOFF = "handoff";
/** Of a leave: the next waiter is notified that the lock is free. */
export const FREE = "free";
/** Of a leave: a lock that the caller holds stays held. */
export const KEEP = "keep";

/** What an ask tells the server. */
interface AskTerms {
  readonly owner: Owner;
  readonly ttlMs: number;
  readonly mode: { readonly kind: string };
  readonly inbox: string;
  readonly isCountable: boolean;
  readonly ticket: number;
}

/** The arguments of `ask.lua`. A try and an attach have no place in the queue. */
export function askArguments(ask: AskTerms, notAfterMs: number): string[] {
  const { owner, ttlMs, mode, inbox, isCountable, ticket } = ask;
  const args = [ownerValue(owner), String(ttlMs), String(notAfterMs), mode.kind, inbox];
  if (mode.kind === MODE_WAIT) args.push(isCountable ? COUNTABLE : "0", String(ticket));
  return args;
}

/** The arguments of `steal.lua`. */
export function stealArguments(
  { owner, ttlMs }: Pick<AskTerms, "owner" | "ttlMs">,
  notAfterMs: number,
  victim: string,
): string[] {
  return [ownerValue(owner), String(ttlMs), String(notAfterMs), victim];
}

/** The arguments of `leave.lua`. */
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
