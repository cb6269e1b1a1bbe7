/**
 * Counts the behaviours of a suite, and says how many passed.
 *
 * @module
 */

/** The behaviours of one suite on one runtime. */
export interface BehaviourCounts {
  /** How many are registered. */
  of: number;
  /** How many have passed so far. */
  passed: number;
}

/** The line about a suite on a runtime. */
export function countLine(
  strategy: string,
  runtime: string,
  { of, passed }: Readonly<BehaviourCounts>,
): string {
  return `conformance: ${strategy} on ${runtime}: ${passed} of ${of} behaviours`;
}
