/**
 * Timers, deadlines and pauses. `within()` and `abortable()` have tests of their own.
 */
import { assert, assertEquals } from "@std/assert";
import {
  deadlineMs,
  instant,
  pause,
  settledWithin,
  SYSTEM_CLOCK,
  TIMED_OUT,
  ttlLasting,
  wasSuspended,
  withinSteps,
} from "../../core/time/clock.ts";
import { countListeners } from "../../testing/core/count_listeners.ts";
import { FakeClock, settle } from "../../testing/core/fake_clock.ts";

Deno.test("SYSTEM_CLOCK.schedule() waits long for a delay that is too long for the runtime's timers", async () => {
  const early: number[] = [];
  const cancels = [2 ** 31, Infinity].map((delayMs) =>
    SYSTEM_CLOCK.schedule(() => void early.push(delayMs), delayMs)
  );
  await new Promise<void>((resolve) => void SYSTEM_CLOCK.schedule(resolve, 10));
  for (const cancel of cancels) cancel();
  assertEquals(early, []);
});

Deno.test("ttlLasting() is the shortest TTL of a lease that is valid for so long", () => {
  for (const validMs of [1, 10, 1_000, 60_000]) {
    const ttlMs = ttlLasting(validMs);
    assert(deadlineMs(0, ttlMs, ttlMs) >= validMs, `${ttlMs} ms`);
    assert(deadlineMs(0, ttlMs - 1, ttlMs - 1) < validMs, `${ttlMs} ms`);
  }
});

Deno.test("wasSuspended() is true when wall time has run ahead by more than the drift, and never without a TTL", () => {
  const clock = new FakeClock();
  const since = instant(clock);
  clock.block(5_000);
  clock.stepWall(32); // the drift of 3,000 ms
  assertEquals(wasSuspended(clock, since, 3_000), false);
  clock.stepWall(1);
  assertEquals(wasSuspended(clock, since, 3_000), true);
  assertEquals(wasSuspended(clock, since, Infinity), false);
  clock.stepWall(-60_000);
  assertEquals(wasSuspended(clock, since, 3_000), false);
});

Deno.test("pause() ends with its time or its signal, and leaves neither a timer nor a listener", async () => {
  const clock = new FakeClock();
  const abort = new AbortController();
  const listeners = countListeners(abort.signal);
  const ended: string[] = [];
  const begin = (name: string, signal?: AbortSignal) => {
    pause(clock, 100, signal).then(() => ended.push(name));
  };
  begin("plain");
  begin("in time", abort.signal);
  await clock.pass(99);
  assertEquals([ended.length, listeners()], [0, 1]);
  await clock.pass(1);
  assertEquals([ended.length, listeners(), clock.timers], [2, 0, 0]);
  begin("aborted", abort.signal);
  abort.abort();
  await settle();
  begin("too late", abort.signal);
  await settle();
  assertEquals(ended, ["plain", "in time", "aborted", "too late"]);
  assertEquals([listeners(), clock.timers], [0, 0]);
});

Deno.test("settledWithin() and withinSteps() wait no longer than their time; a blocked event loop uses up one step", async () => {
  const clock = new FakeClock();
  assertEquals(await settledWithin(clock, Promise.resolve(), 100), true);
  assertEquals(await settledWithin(clock, Promise.reject(new Error("no")), 100), true);
  assertEquals(clock.timers, 0);
  const late = settledWithin(clock, new Promise(() => {}), 100);
  await clock.pass(100);
  assertEquals(await late, false);

  let outcome: unknown = "pending";
  const wait = (answer: Promise<string>) => {
    outcome = "pending";
    withinSteps(clock, answer, 100, 3).then((result) => outcome = result);
  };
  wait(new Promise(() => {}));
  await clock.pass(299);
  assertEquals(outcome, "pending");
  await clock.pass(1);
  assertEquals(outcome, TIMED_OUT);
  const answer = Promise.withResolvers<string>();
  wait(answer.promise);
  clock.block(60_000);
  await clock.pass(150);
  assertEquals(outcome, "pending");
  answer.resolve("answered");
  await settle();
  assertEquals([outcome, clock.timers], ["answered", 0]);
});
