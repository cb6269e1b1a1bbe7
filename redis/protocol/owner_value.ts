/**
 * What stands in the lock key: `ownerId#nonce`.
 *
 * @module
 */
import { labelOf } from "../../core/owner_id.ts";

/** An owner as the server stores it. */
export interface Owner {
  readonly ownerId: string;
  /** Made anew by each call that takes the lock, so that an earlier lease of this id is told apart. */
  readonly nonce: string;
}

const VALUE = /^(.*)#[0-9a-f]{16}$/s;

/** The nonce of an owner id that one call has made for itself: nothing is left to tell apart. */
const ONLY_NONCE = "0000000000000000";

/** Makes the owner for one call under an id of its own, or under one that earlier calls may have used. */
export function makeOwner(ownerId: string, isNew: boolean): Owner {
  const nonce = isNew ? ONLY_NONCE : crypto.randomUUID().replaceAll("-", "").slice(0, 16);
  return { ownerId, nonce };
}

/** The whole value, by which renewals and releases find their own. */
export function ownerValue({ ownerId, nonce }: Owner): string {
  return `${ownerId}#${nonce}`;
}

/** Whether a value was written by this library. */
export function isOurs(value: string): boolean {
  return VALUE.test(value);
}

/** The label in a value, if we wrote it and it has one. */
export function labelOfValue(value: string): string | undefined {
  const ownerId = VALUE.exec(value)?.[1];
  return ownerId === undefined ? undefined : labelOf(ownerId);
}
