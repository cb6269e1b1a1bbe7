/**
 * The lease of an invocation, on a fake clock. With real servers it is tested in
 * `redis_lambda_invocations_test.ts` and `redis_lambda_freeze_test.ts`.
 *
 * @module
 */
import { assert, assertEquals, assertRejects, assertThrows } from "@std/assert";
import { inspect } from "node:util";
import { InvocationLease } from "../../http/internal/lambda/invocation_lease.ts";
import { LeaseLostError, LockError, LockSetupError } from "../../mod.ts";
import { settle } from "../../testing/core/fake_clock.ts";
import { type FakeService, openLease } from "../../testing/core/fake_service.ts";

const MARGIN_MS = 500;

interface Bench extends FakeService {
  readonly bound: InvocationLease;
  /** How long the invocation may still take. */
  remainingMs(): number;
}

/** A lease of 3,000 ms in an invocation that is killed after `timeoutMs`. */
function open(timeoutMs: number, marginMs = MARGIN_MS): Bench {
  const service = openLease({ autoRenew: false });
  const { clock, lease } = service;
  const killedMs = clock.wall() + timeoutMs;
  const remainingMs = () => killedMs - clock.wall();
  const bound = new InvocationLease(lease, remainingMs, marginMs, true, clock);
  return { ...service, bound, remainingMs };
}

/** Lets time pass. The service answers each renewal after `delayMs`, as Redis would. */
async function serve(bench: Bench, durationMs: number, delayMs = 0): Promise<void> {
  const { clock, renewals, remainingMs } = bench;
  let endMs = clock.now() + 3_000; // when the key expires
  for (let passed = 0; passed < durationMs; passed += 5) {
    await clock.pass(5);
    const due = renewals[0];
    if (due === undefined || clock.now() < due.sentMs + delayMs) continue;
    renewals.shift();
    if (clock.now() > endMs) due.answer({ state: "lost", reason: "expired" });
    else {
      endMs = Math.max(endMs, clock.now() + due.ttlMs!);
      assert(
        endMs - clock.now() <= Math.max(remainingMs(), 0) + 1,
        "the key expires before the invocation is killed",
      );
      due.answer({ state: "held", validMs: endMs - clock.now() });
    }
    await settle();
  }
}

Deno.test("InvocationLease renews until its invocation has no time left, then is lost and released", async () => {
  for (const timeoutMs of [4_000, 10_000, 60_000]) {
    const bench = open(timeoutMs);
    await serve(bench, timeoutMs - MARGIN_MS - 10);
    bench.bound.throwIfLost();
    assert(bench.bound.remainingMs > 0 && bench.bound.remainingMs <= 10);
    await bench.clock.pass(10);
    const { reason } = bench.bound.signal.reason as LeaseLostError;
    assertEquals(reason, "max-hold");
    assertEquals(bench.bound.remainingMs, 0);
    assertThrows(() => bench.bound.throwIfLost(), LeaseLostError, "max");
    assertEquals(bench.releases.length, 1, "the lease is released");
    bench.releases[0]!.answer({ state: "released" });
    await settle();
    assertEquals(bench.clock.timers, 0);
  }
});

Deno.test("InvocationLease never lasts beyond the invocation when the service executes a renewal late", async () => {
  for (const delayMs of [50, 100, 200, 450, 550, 700, 900, 1_500]) {
    const bench = open(9_000);
    await serve(bench, 8_500, delayMs); // asserts the end of the key at each answer
  }
});

Deno.test("InvocationLease never asks for a TTL beyond the invocation when renewals are retried", async () => {
  const bench = open(5_000);
  const { clock, renewals, remainingMs } = bench;
  await clock.pass(2_900); // no attempt is answered
  assert(renewals.length > 1, "the renewal was retried");
  const { ttlMs } = renewals.at(-1)!;
  assert(ttlMs! <= remainingMs() + 1, `${ttlMs} ms asked for, ${remainingMs()} ms left`);
});

Deno.test("InvocationLease.renew() limits the TTL to the invocation's time, and never shortens it", async () => {
  const bench = open(20_000);
  const renewing = bench.bound.renew(60_000);
  const { ttlMs, answer } = bench.renewals[0]!;
  assert(ttlMs! + 3_000 <= 20_000 && ttlMs! > 16_000);
  answer({ state: "held", validMs: ttlMs! });
  await renewing;
  assert(bench.bound.remainingMs > 15_000);
  await bench.bound.renew(10); // never shortens
  assertEquals(bench.renewals.length, 1);
});

Deno.test("InvocationLease is lost at once when the inner lease is lost, by the clock or by its signal", async () => {
  const byClock = open(10_000);
  const { signal } = byClock.bound;
  assert(!signal.aborted);
  byClock.clock.block(3_000); // no timer fires
  assert(byClock.bound.signal.aborted, "a fresh read of the signal shows the loss");
  assert(signal.aborted);
  assertThrows(() => byClock.bound.throwIfLost(), LeaseLostError);
  const told = open(10_000);
  let reason: unknown;
  told.bound.signal.addEventListener("abort", () => reason = told.bound.signal.reason.reason);
  told.lease.lose("stolen");
  assertEquals(reason, "stolen");
  assertEquals(told.bound.remainingMs, 0);
  await assertRejects(() => told.bound.renew(), LeaseLostError);
});

Deno.test("InvocationLease is lost and sends no renewal when the inner lease was lost before", async () => {
  const { clock, lease, renewals } = openLease({ autoRenew: false });
  clock.block(3_000);
  assert(lease.signal.aborted);
  await settle();
  const { timers } = clock;
  const bound = new InvocationLease(lease, () => 1_500, MARGIN_MS, true, clock);
  assertEquals(clock.timers, timers);
  await clock.pass(900);
  assertEquals(renewals.length, 0);
  assert(bound.signal.aborted);
  assertThrows(() => bound.throwIfLost(), LeaseLostError);
});

Deno.test("InvocationLease is lost when its instance wakes after the end of the invocation", async () => {
  const bench = open(60_000);
  const { signal } = bench.bound;
  bench.clock.stepWall(60_000); // frozen: the monotonic clock did not run
  assertEquals(bench.bound.remainingMs, 0);
  assertThrows(() => bench.bound.throwIfLost(), LeaseLostError);
  assert(signal.aborted);
  await assertRejects(() => bench.bound.renew(), LeaseLostError);
  assertEquals(bench.renewals.length, 0, "a lost lease is not renewed");
});

Deno.test("InvocationLease asks the service once when its instance wakes within the invocation", async () => {
  const bench = open(60_000);
  bench.clock.stepWall(1_000);
  assertThrows(() => bench.bound.throwIfLost(), LeaseLostError, "cannot be proven");
  assertEquals(bench.bound.remainingMs, 0);
  assert(!bench.bound.signal.aborted);
  bench.renewals[0]!.answer({ state: "held", validMs: 2_000 });
  await settle();
  bench.bound.throwIfLost();
  assert(bench.bound.remainingMs > 1_900);
});

Deno.test("InvocationLease.renew() rejects as lost when no answer comes within the invocation's time", async () => {
  const bench = open(2_000);
  bench.clock.stepWall(500); // frozen: by the monotonic clock the lease outlasts the invocation
  const asking = bench.bound.renew();
  let error: unknown;
  asking.catch((reason) => error = reason);
  await bench.clock.pass(1_000);
  assert(bench.bound.signal.aborted, "the signal aborts in time, too");
  await bench.clock.pass(500);
  bench.releases[0]!.answer({ state: "released" });
  await bench.clock.pass(500);
  assert(error instanceof LeaseLostError, String(error));
  assertEquals(error.reason, "max-hold");
});

Deno.test("InvocationLease.release() leaves no timer and does not count as a loss", async () => {
  const bench = open(10_000);
  const { signal } = bench.bound;
  const released = bench.bound.release();
  bench.releases[0]!.answer({ state: "released" });
  assertEquals(await released, true);
  assertEquals(await bench.bound.release(), false);
  await bench.bound[Symbol.asyncDispose]();
  await settle();
  assertEquals(bench.clock.timers, 0);
  bench.clock.block(60_000);
  assert(!signal.aborted && !bench.bound.signal.aborted);
  assertEquals(bench.bound.remainingMs, 0);
  const error = assertThrows(() => bench.bound.throwIfLost(), LockError, "released");
  assert(!(error instanceof LeaseLostError));
});

Deno.test("InvocationLease never rejects at its disposal, when the service refuses the release", async () => {
  const bench = open(10_000);
  const disposal = bench.bound[Symbol.asyncDispose]();
  bench.releases[0]!.answer({ state: "refused", reason: "no permission", cause: undefined });
  await disposal;
  await assertRejects(() => bench.bound.release(), LockSetupError);
});

Deno.test("InvocationLease shows its name, token and time, but not its owner id, when it is logged", () => {
  const { bound } = open(10_000);
  for (const text of [JSON.stringify(bound), Deno.inspect(bound), inspect(bound)]) {
    assert(!/owner/i.test(text), text);
    for (const shown of ["name", "fencingToken", "remainingMs"]) assert(text.includes(shown), text);
  }
});
