/**
 * The early warning before a lease is lost. When it is given is decided in `lease_renewal.ts`.
 *
 * @module
 */
import type { Lease } from "./distributed_lock.ts";
import type { LeaseListener } from "../lease/lease.ts";
import { promiseTry } from "./promise_try.ts";

/** A lease that is renewed late, as the option `onRenewalLate` gets it. */
export interface RenewalLate {
  /** The name of the lock. */
  readonly name: string;
  /** How long, in ms, the lease can still be proven: less than a third of its time. */
  readonly remainingMs: number;
}

/** Passes the events of leases on to the user's option. */
export class LateRenewals implements LeaseListener {
  readonly #onRenewalLate: ((late: RenewalLate) => void) | undefined;

  /** @param onRenewalLate The user's option. */
  constructor(onRenewalLate: ((late: RenewalLate) => void) | undefined) {
    this.#onRenewalLate = onRenewalLate;
  }

  /** Implements {@linkcode LeaseListener}. An error of the user's callback must not end the timer of all leases. */
  onRenewalLate({ name, remainingMs }: Lease): void {
    const call = this.#onRenewalLate;
    if (call !== undefined) promiseTry(() => call({ name, remainingMs })).catch(() => {});
  }
}
