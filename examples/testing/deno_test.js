import { FakeClock, FakeLock } from "@holdfast/lock/testing";
import assert from "node:assert/strict";
import { shipOrder } from "./ship_order.js";

const carrier = { print: async (id) => `label ${id}`, ship: async () => "shipped" };

Deno.test("shipOrder() ships under the lock, and releases it", async () => {
  await using locks = new FakeLock();
  assert.equal(await shipOrder(locks, 42, carrier), "shipped");
  const { acquire, release } = locks.counts("orders:42");
  assert.deepEqual({ acquire, release }, { acquire: 1, release: 1 });
});

Deno.test("shipOrder() waits for another process, but not for long", async () => {
  const clock = new FakeClock();
  await using locks = new FakeLock({ clock });
  const other = locks.holdElsewhere("orders:42", { label: "host-b" });
  const late = assert.rejects(shipOrder(locks, 42, carrier), /"host-b" holds it/);
  await clock.advance(2_000);
  await late;
  const patient = shipOrder(locks, 42, carrier);
  await clock.advance(1_999);
  other.release();
  assert.equal(await patient, "shipped");
});

Deno.test("shipOrder() ships nothing when its lease is lost while it prints", async () => {
  await using locks = new FakeLock();
  const print = async () => locks.loseLease("orders:42", "expired");
  const ship = () => assert.fail("it must not be called");
  await assert.rejects(shipOrder(locks, 42, { print, ship }), { code: "ERR_LEASE_LOST" });
});

Deno.test("shipOrder() ships nothing in an outage", async () => {
  await using locks = new FakeLock();
  {
    using _outage = locks.startOutage();
    await assert.rejects(shipOrder(locks, 42, carrier), { code: "ERR_LOCK_UNAVAILABLE" });
  }
  assert.equal(await shipOrder(locks, 42, carrier), "shipped");
});
