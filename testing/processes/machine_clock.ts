/**
 * A clock that all processes of a machine share.
 *
 * @module
 */
import { openMonotonicClock } from "../runtime/clock.ts";

/** The time in µs of CLOCK_MONOTONIC; of the wall clock where CLOCK_MONOTONIC cannot be read. */
export const nowUs: () => number = openMonotonicClock() ?? wallUs;

function wallUs(): number {
  return Math.floor((performance.timeOrigin + performance.now()) * 1_000);
}
