/**
 * Owner values, as the lock key holds them: `ownerId#nonce`. Calls under one owner id have different
 * nonces, so that an earlier lease of the id is recognized.
 *
 * @module
 */
import { labelOf } from "../../core/contract/owner_id.ts";

/** Hex digits of a nonce. */
export const NONCE_DIGITS = 16;

const VALUE = new RegExp(`^(.*)#[0-9a-f]{${NONCE_DIGITS}}$`, "s");

/** Makes a random nonce. The id of an inbox is made like that, too. */
export function makeNonce(): string {
  return crypto.randomUUID().replaceAll("-", "").slice(0, NONCE_DIGITS);
}

/**
 * The owner value of one call. Renewals and releases compare it, so that they never touch another lease.
 *
 * @param nonce The inbox of a call that has made its owner id: the nonce names the inbox that a thief
 * notifies. Left out for an id that the caller chose: each call has its own nonce.
 */
export function ownerValue(ownerId: string, nonce: string = makeNonce()): string {
  return `${ownerId}#${nonce}`;
}

/** Whether a value was written by this library. */
export function isOurs(value: string): boolean {
  return VALUE.test(value);
}

/** Whether two values have the same owner id. */
export function hasSameOwnerId(value: string, other: string): boolean {
  return value.slice(0, -NONCE_DIGITS) === other.slice(0, -NONCE_DIGITS);
}

/** The label in a value, if this library wrote it and it has one. */
export function labelOfValue(value: string): string | undefined {
  const ownerId = VALUE.exec(value)?.[1];
  return ownerId === undefined ? undefined : labelOf(ownerId);
}
