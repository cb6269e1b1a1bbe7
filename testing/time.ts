/**
 * The times that tests choose, in ms: one name for each purpose. All grow with the factor by which the
 * runner finds this machine late. Bounds that the documentation promises (a deadline, the 1,000 ms of a
 * bounded wait, the claim of 3 s) are not here, because a slow machine does not change a promise.
 *
 * @module
 */
import process from "node:process";

/** The environment variable by which the runner passes the factor on. */
export const TIME_FACTOR_VARIABLE = "HOLDFAST_TIME_FACTOR";

/** How many times later than on an idle machine things happen here: 1 to 4. */
export const TIME_FACTOR: number = readFactor(process.env[TIME_FACTOR_VARIABLE]);

/** The TTL of a lease that no test outlives. */
export const LONG_TTL_MS = scaled(60_000);
/** The TTL of a lease that renewals keep while the test goes on: a stalled machine must not lose it. */
export const KEPT_TTL_MS = scaled(5_000);
/** The TTL of a lease that renewals keep, and that the test outlasts. */
export const RENEWED_TTL_MS = scaled(3_000);
/** The TTL of a lease that must last until a fault, and whose end the test waits for after that. */
export const FAULT_TTL_MS = scaled(2_000);
/** The TTL of a lease whose end, or whose next renewal, the test waits for: it may end at any time. */
export const ENDING_TTL_MS = scaled(1_000);

/** The ZooKeeper session of a lock that must stay alive while the test goes on. */
export const KEPT_SESSION_MS = scaled(10_000);
/** The ZooKeeper session whose end the test waits for. */
export const ENDING_SESSION_MS = scaled(1_000);
/** The longest ZooKeeper session that the tests' servers grant: no machine changes that. */
export const LONG_SESSION_MS = 60_000;

/** How long a test waits for what must happen: generous, since only a failure takes this long. */
export const CONDITION_BOUND_MS = scaled(60_000);
/** The same for work that takes long even on an idle machine: builds, installations, many processes. */
export const LONG_BOUND_MS = scaled(300_000);
/** How long a test watches that something does not happen: all of it passes in each run. */
export const QUIET_MS = scaled(100);
/** How long a disposal waits for the releases of its leases when the test waits for the disposal. */
export const SHORT_DISPOSAL_MS = scaled(100);

/** A time of this machine for one on an idle machine. For a purpose that has a single test. */
export function scaled(ms: number): number {
  return Math.round(ms * TIME_FACTOR);
}

function readFactor(text = "1"): number {
  const factor = Number(text);
  if (factor >= 1 && factor <= 4) return factor;
  throw new Error(`${TIME_FACTOR_VARIABLE} must be a number from 1 to 4, not "${text}"`);
}
