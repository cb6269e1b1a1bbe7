/**
 * Owner ids, each of which identifies one lease. The check of those that callers make is in `options.ts`.
 *
 * @module
 */

const OWNER_ID = /^(.*)\/[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/s;

/** Makes an owner id: `label/UUID`, unique and unguessable (122 random bits). */
export function makeOwnerId(label: string): string {
  return `${label}/${crypto.randomUUID()}`;
}

/** The label in an owner id made by {@linkcode makeOwnerId}; `undefined` if there is none. */
export function labelOf(ownerId: string): string | undefined {
  return OWNER_ID.exec(ownerId)?.[1] || undefined;
}
