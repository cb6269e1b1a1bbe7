/**
 * Owner values, as the lock key holds them: `ownerId#nonce`.
 *
 * @module
 */
import { labelOf } from "../../core/contract/owner_id.ts";

/** An owner: the id that a caller knows, and the nonce of one call. */
export interface Owner {
  readonly ownerId: string;
  /** Differs between calls under the same id, so that an earlier lease of the id is recognized. */
  readonly nonce: string;
}

/** Hex digits of a nonce. */
export const NONCE_DIGITS = 16;

const VALUE = new RegExp(`^(.*)#[0-9a-f]{${NONCE_DIGITS}}$`, "s");

/** Makes a random nonce. The id of an inbox is made like that, too. */
export function makeNonce(): string {
  return crypto.randomUUID().replaceAll("-", "").slice(0, NONCE_DIGITS);
}

/**
 * Makes the owner for one call.
 *
 * @param inbox The inbox of a call whose owner id was made for it alone: its nonce names the inbox that
 * a thief notifies. Left out for an id that earlier calls may have used: each call has its own nonce.
 */
export function makeOwner(ownerId: string, inbox: string = makeNonce()): Owner {
  return { ownerId, nonce: inbox };
}

/** The whole owner value. Renewals and releases compare it, so that they never touch another lease. */
export function ownerValue({ ownerId, nonce }: Owner): string {
  return `${ownerId}#${nonce}`;
}

/** Whether a value was written by this library. */
export function isOurs(value: string): boolean {
  return VALUE.test(value);
}

/** The label in a value, if this library wrote it and it has one. */
export function labelOfValue(value: string): string | undefined {
  const ownerId = VALUE.exec(value)?.[1];
  return ownerId === undefined ? undefined : labelOf(ownerId);
}
