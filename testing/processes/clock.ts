/**
 * A clock that all processes of a machine share.
 *
 * @module
 */
import { openMonotonicClock } from "../runtime/clock.ts";

/** Time in µs by CLOCK_MONOTONIC; by the wall clock where that cannot be read. */
export const nowUs: () => number = openMonotonicClock() ?? wallUs;

function wallUs(): number {
  return Math.floor((performance.timeOrigin + performance.now()) * 1_000);
}
