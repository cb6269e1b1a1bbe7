import { FakeClock, FakeLock } from "@holdfast/lock/testing";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { shipOrder } from "./ship_order.js";

let carrier, clock, locks;

beforeEach(() => {
  carrier = { print: vi.fn(async (id) => `label ${id}`), ship: vi.fn(async () => "shipped") };
  clock = new FakeClock();
  locks = new FakeLock({ clock });
});
afterEach(() => locks[Symbol.asyncDispose]());

test("ships under the lock, and releases it", async () => {
  await expect(shipOrder(locks, 42, carrier)).resolves.toBe("shipped");
  expect(carrier.ship).toHaveBeenCalledWith("label 42", { fence: 1n });
  expect(locks.counts("orders:42")).toMatchObject({ acquire: 1, release: 1 });
});

test("waits for another process, but not for long", async () => {
  const other = locks.holdElsewhere("orders:42", { label: "host-b" });
  const late = expect(shipOrder(locks, 42, carrier)).rejects.toThrow(/"host-b" holds it/);
  await clock.advance(2_000);
  await late;
  const patient = shipOrder(locks, 42, carrier);
  await clock.advance(1_999);
  other.release();
  await expect(patient).resolves.toBe("shipped");
});

test("ships nothing when its lease is lost while it prints", async () => {
  carrier.print.mockImplementation(async () => locks.loseLease("orders:42", "expired"));
  await expect(shipOrder(locks, 42, carrier)).rejects.toMatchObject({ code: "ERR_LEASE_LOST" });
  expect(carrier.ship).not.toHaveBeenCalled();
});

test("ships nothing in an outage", async () => {
  const outage = locks.startOutage();
  const code = "ERR_LOCK_UNAVAILABLE";
  await expect(shipOrder(locks, 42, carrier)).rejects.toMatchObject({ code });
  outage.end();
  await expect(shipOrder(locks, 42, carrier)).resolves.toBe("shipped");
});

test("goes by the timers of Vitest, too", async () => {
  vi.useFakeTimers();
  const locks = new FakeLock(); // without a FakeClock
  const lease = await locks.acquire("orders:42", { autoRenew: false });
  await vi.advanceTimersByTimeAsync(10_000);
  expect(lease.signal.reason).toMatchObject({ reason: "expired" });
  await locks[Symbol.asyncDispose]();
  vi.useRealTimers();
});
