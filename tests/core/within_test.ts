import { assertEquals, assertRejects } from "@std/assert";
import { TIMED_OUT, within } from "../../core/time/clock.ts";
import { FakeClock } from "../../testing/core/fake_clock.ts";

Deno.test("within() settles as its promise does and cancels its timer", async () => {
  const clock = new FakeClock();
  assertEquals(await within(clock, Promise.resolve("done"), 100), "done");
  await assertRejects(() => within(clock, Promise.reject(new Error("No")), 100), Error, "No");
  assertEquals(clock.timers, 0);
});

Deno.test("within() resolves with TIMED_OUT when time runs out, and ignores a later result", async () => {
  for (const settle of ["resolve", "reject"] as const) {
    const clock = new FakeClock();
    const late = Promise.withResolvers<string>();
    let result: unknown;
    const waiting = within(clock, late.promise, 100).then((value) => result = value);
    await clock.pass(99);
    assertEquals(result, undefined);
    await clock.pass(1);
    await waiting;
    assertEquals(result, TIMED_OUT);
    late[settle]("late");
    await clock.pass(1);
    assertEquals([result, clock.timers], [TIMED_OUT, 0]);
  }
});
