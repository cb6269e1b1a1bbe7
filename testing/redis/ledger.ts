/**
 * Asserts that no two leases of one lock are valid at once.
 *
 * @module
 */
import { assert } from "@std/assert";
import type { Lease } from "../../mod.ts";

/** The leases of one lock that a test was granted. */
export class Ledger {
  readonly #leases: Lease[] = [];

  /** Adds a lease. Asserts that every earlier one is over, and that the token has grown. */
  granted(lease: Lease): void {
    assert(lease.remainingMs > 0, "a lease that is already over was granted");
    for (const earlier of this.#leases) {
      assert(earlier.remainingMs === 0, "two leases are valid at once");
      assert(earlier.fencingToken < lease.fencingToken, "the token did not grow");
    }
    this.#leases.push(lease);
  }
}
