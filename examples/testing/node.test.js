import { FakeClock, FakeLock } from "@holdfast/lock/testing";
import assert from "node:assert/strict";
import { afterEach, beforeEach, mock, test } from "node:test";
import { shipOrder } from "./ship_order.js";

let carrier, clock, locks;

beforeEach(() => {
  carrier = { print: mock.fn(async (id) => `label ${id}`), ship: mock.fn(async () => "shipped") };
  clock = new FakeClock();
  locks = new FakeLock({ clock });
});
afterEach(() => locks[Symbol.asyncDispose]());

test("ships under the lock, and releases it", async () => {
  assert.equal(await shipOrder(locks, 42, carrier), "shipped");
  assert.deepEqual(carrier.ship.mock.calls[0].arguments, ["label 42", { fence: 1n }]);
  const { acquire, release } = locks.counts("orders:42");
  assert.deepEqual({ acquire, release }, { acquire: 1, release: 1 });
});

test("waits for another process, but not for long", async () => {
  const other = locks.holdElsewhere("orders:42", { label: "host-b" });
  const late = assert.rejects(shipOrder(locks, 42, carrier), /"host-b" holds it/);
  await clock.advance(2_000);
  await late;
  const patient = shipOrder(locks, 42, carrier);
  await clock.advance(1_999);
  other.release();
  assert.equal(await patient, "shipped");
});

test("ships nothing when its lease is lost while it prints", async () => {
  carrier.print.mock.mockImplementation(async () => locks.loseLease("orders:42", "expired"));
  await assert.rejects(shipOrder(locks, 42, carrier), { code: "ERR_LEASE_LOST" });
  assert.equal(carrier.ship.mock.callCount(), 0);
});

test("ships nothing in an outage", async () => {
  const outage = locks.startOutage();
  await assert.rejects(shipOrder(locks, 42, carrier), { code: "ERR_LOCK_UNAVAILABLE" });
  outage.end();
  assert.equal(await shipOrder(locks, 42, carrier), "shipped");
});
