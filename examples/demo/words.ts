/**
 * Formats counts as words.
 *
 * @module
 */

/** A count with its noun, in singular or plural: `1 round`, `2 rounds`. */
export function counted(many: number, what: string): string {
  return `${many} ${what}${many === 1 ? "" : "s"}`;
}
