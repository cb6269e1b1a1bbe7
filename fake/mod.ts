/**
 * For the tests of code that uses locks, never for production: a lock in memory whose test holds names
 * elsewhere, takes leases away, lets the service fail or answer late, sets the time, and counts requests.
 *
 * @example A test of code that stops when its lease is lost
 * ```ts
 * import { LeaseLostError } from "@holdfast/lock";
 * import { FakeLock } from "@holdfast/lock/testing";
 * import { assertEquals, assertRejects } from "@std/assert";
 *
 * await using locks = new FakeLock();
 * const ship = () =>
 *   locks.request("orders:42", ({ signal }) => {
 *     locks.loseLease("orders:42", "expired"); // in the midst of the work
 *     signal.throwIfAborted();
 *   });
 * const error = await assertRejects(ship, LeaseLostError);
 * assertEquals(error.reason, "expired");
 * ```
 *
 * @module
 */
export { FakeClock } from "./fake_clock.ts";
export { FakeLock } from "./fake_lock.ts";
export type { FakeHolder, FakeHolderOptions, FakeLockOptions } from "./options.ts";
export type { FakeFault, FakeFaultOptions, FakeRequest } from "./faults.ts";
