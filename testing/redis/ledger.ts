/**
 * Watches that no two leases of one lock are provable at once.
 *
 * @module
 */
import { assert } from "@std/assert";
import type { Lease } from "../../mod.ts";

/** Every lease of one lock that a test was granted. */
export class Ledger {
  readonly #leases: Lease[] = [];

  /** Notes a grant: every earlier lease must be over by now. */
  granted(lease: Lease): void {
    assert(lease.remainingMs > 0, "a lease that is already over was granted");
    for (const earlier of this.#leases) {
      assert(earlier.remainingMs === 0, "two leases are provable at once");
      assert(earlier.fencingToken < lease.fencingToken, "the token did not grow");
    }
    this.#leases.push(lease);
  }
}
