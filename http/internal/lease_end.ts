/**
 * How the lease of a request ends: whether it is lost, and a release that does not hold up the
 * response.
 *
 * @module
 */
import { SYSTEM_CLOCK, within } from "../../core/clock.ts";
import type { Lease } from "../../core/distributed_lock.ts";
import { LeaseLostError } from "../../core/errors.ts";

/** How long in ms a response may wait for the release: the lock becomes free in any case. */
const RELEASE_TIMEOUT_MS = 1_000;

/**
 * Why the lease is lost; `null` if it is not, or if the handler has released it. After a suspension
 * of the process the lease is unproven, so the service is asked once more.
 */
export async function lossOf(lease: Lease): Promise<unknown> {
  try {
    lease.throwIfLost();
    return null;
  } catch (error) {
    if (!(error instanceof LeaseLostError)) return null;
  }
  try {
    await lease.renew();
    return null;
  } catch (error) {
    return error instanceof LeaseLostError ? error : null;
  }
}

/** Releases the lock; waits for the service's answer, but not for long. Never rejects. */
export async function releaseInTime(lease: Lease): Promise<void> {
  await within(SYSTEM_CLOCK, lease.release(), RELEASE_TIMEOUT_MS).catch(() => {});
}
