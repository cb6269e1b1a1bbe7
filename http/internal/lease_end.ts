/**
 * Checks whether the lease of a request is lost, and releases it within a time limit. When a response
 * needs which of the two is in `response_hold.ts`, `held_response.ts` and `run_under_lease.ts`.
 *
 * @module
 */
import { SYSTEM_CLOCK, within } from "../../core/time/clock.ts";
import type { Lease } from "../../core/contract/distributed_lock.ts";
import { LeaseLostError, LockError } from "../../core/contract/errors.ts";
import { type HoldSettings, report } from "./options.ts";

/** How long in ms a response waits for the release. After that, the release goes on without it. */
const RELEASE_TIMEOUT_MS = 1_000;

/**
 * Returns the error if the lease is lost; `null` if it is not, or if the handler has released it. If
 * the lease is only unproven, since the process was suspended, one renewal asks the service.
 */
export async function lossOf(lease: Lease): Promise<unknown> {
  const loss = unprovenBy(lease);
  if (loss === null) return null;
  try {
    await lease.renew();
    return null;
  } catch (error) {
    if (error instanceof LeaseLostError) return error;
    // The handler has released it in the meantime; or a lock that is being disposed renews no lease.
    return error instanceof LockError && error.code === "ERR_LEASE_RELEASED" ? null : loss;
  }
}

/** Returns the error if the lease cannot be proven by the clock; `null` if it can, or was released. */
function unprovenBy(lease: Lease): LeaseLostError | null {
  try {
    lease.throwIfLost();
    return null;
  } catch (error) {
    return error instanceof LeaseLostError ? error : null;
  }
}

/**
 * Releases the lock. Resolves when the service has answered, after 1 s at the latest. Never rejects: a
 * refusal, after which the lock stays held, is reported.
 */
export async function releaseInTime(lease: Lease, settings: HoldSettings): Promise<void> {
  const released = lease.release().catch((error) => report(settings, error));
  await within(SYSTEM_CLOCK, released, RELEASE_TIMEOUT_MS);
}
