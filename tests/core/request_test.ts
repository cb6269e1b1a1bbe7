/**
 * `request()` beside a loss, and how code under a lock learns of one. What all strategies do is in
 * `testing/conformance/request.ts`.
 */
import { assert, assertEquals, assertRejects } from "@std/assert";
import { ACQUIRE_OPTIONS } from "../../core/contract/call_options.ts";
import type { DistributedLock, Lease } from "../../core/contract/distributed_lock.ts";
import { LeaseLostError, LockError } from "../../core/contract/errors.ts";
import { Nesting } from "../../core/contract/nesting.ts";
import { lossOf, requestOn, stemsFrom } from "../../core/contract/request.ts";
import { settle } from "../../testing/core/fake_clock.ts";
import { type FakeService, openLease } from "../../testing/core/fake_service.ts";

Deno.test("request() never runs its callback under a lease that was lost before", async () => {
  const { lease } = openLease();
  lease.lose("stolen");
  const acquire = () => Promise.resolve(lease);
  const source = { acquire } as Partial<DistributedLock> as DistributedLock;
  const request = requestOn(source, { options: ACQUIRE_OPTIONS, nesting: new Nesting(source) });
  await assertRejects(() => request("n", () => assert(false, "it ran")), LeaseLostError);
});

/** What `lossOf()` says of a lease that a suspension has left unproven, if this happens meanwhile. */
async function lossAfterSuspension(happens: (service: FakeService) => void): Promise<unknown> {
  const service = openLease();
  service.clock.stepWall(60_000);
  const asked = lossOf(service.lease);
  await settle();
  happens(service);
  await settle();
  service.renewals[1]?.answer({ state: "held", validMs: 3_000 });
  return await asked;
}

Deno.test("lossOf() is the loss of a lease, and null if that is held, or proven again, or was released", async () => {
  const { lease, releases } = openLease();
  assertEquals(await lossOf(lease), null);
  const released = lease.release();
  await settle();
  releases[0]!.answer({ state: "released" });
  await released;
  assertEquals(await lossOf(lease), null);
  const proven = await lossAfterSuspension(({ renewals }) => {
    renewals[0]!.answer({ state: "held", validMs: 3_000 });
  });
  assertEquals(proven, null);
  const releasedLater = await lossAfterSuspension(({ lease, renewals }) => {
    lease.release();
    renewals[0]!.answer({ state: "held", validMs: 3_000 });
  });
  assertEquals(releasedLater, null);

  const lost = openLease().lease;
  lost.lose("stolen");
  assert(await lossOf(lost) === lost.signal.reason);
  const gone = await lossAfterSuspension(({ renewals }) => {
    renewals[0]!.answer({ state: "lost", reason: "stolen" });
  });
  assert(gone instanceof LeaseLostError);
  assertEquals(gone.reason, "stolen");

  const unproven = new LeaseLostError("n", "unreachable");
  const failing = (use: unknown, renewal: unknown) => {
    const throwIfLost = () => {
      throw use;
    };
    const renew = () => Promise.reject(renewal);
    return { throwIfLost, renew } as Partial<Lease> as Lease;
  };
  for (const renewal of [new DOMException("", "InvalidStateError"), new LockError("no")]) {
    assert(await lossOf(failing(unproven, renewal)) === unproven);
  }
  const over = new LockError("it was released");
  assertEquals(await lossOf(failing(over, unproven)), null, "it asks for no renewal");
});

Deno.test("stemsFrom() finds a reason in an error or its cause, and nothing where there is no reason", () => {
  const reason = new Error("the reason");
  const cases: [error: unknown, reason: unknown, stems: boolean][] = [
    [reason, reason, true],
    [new Error("m", { cause: reason }), reason, true],
    [new Error("m"), reason, false],
    ["the reason", reason, false],
    [new Error("m"), undefined, false],
  ];
  for (const [error, reason, stems] of cases) assertEquals(stemsFrom(error, reason), stems);
});
