/**
 * Words for people.
 *
 * @module
 */

/** A number of things. */
export function counted(many: number, what: string): string {
  return `${many} ${what}${many === 1 ? "" : "s"}`;
}
