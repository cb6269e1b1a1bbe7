import { assertEquals } from "@std/assert";
import { SharedTimer } from "../../core/shared_timer.ts";
import { FakeClock } from "../../testing/core/fake_clock.ts";

function open() {
  const clock = new FakeClock();
  const timer = new SharedTimer(clock);
  const rung: string[] = [];
  const set = (name: string, delayMs: number) => timer.schedule(() => rung.push(name), delayMs);
  return { clock, timer, rung, set };
}

Deno.test("SharedTimer go off in their order, on one timer", async () => {
  const { clock, rung, set } = open();
  set("late", 300);
  set("early", 100);
  set("middle", 200);
  assertEquals(clock.timers, 1);
  await clock.pass(150);
  assertEquals(rung, ["early"]);
  await clock.pass(150);
  assertEquals(rung, ["early", "middle", "late"]);
  assertEquals(clock.timers, 0);
});

Deno.test("SharedTimer that are called off do not hold the process", async () => {
  const { clock, rung, set } = open();
  for (let i = 0; i < 100; i++) set("never", 1_000)();
  assertEquals([clock.timers, clock.held], [1, 0]);
  set("later", 2_000);
  assertEquals([clock.timers, clock.held], [1, 1]);
  await clock.pass(2_000);
  assertEquals(rung, ["later"]);
});

Deno.test("an alarm may call off another, and set one", async () => {
  const { clock, timer, rung, set } = open();
  let cancel = () => {};
  timer.schedule(() => {
    cancel();
    set("second", 50);
  }, 100);
  cancel = set("never", 100);
  await clock.pass(200);
  assertEquals(rung, ["second"]);
});

Deno.test("closing lets all timer go off, and later ones stand alone", async () => {
  const { clock, timer, rung, set } = open();
  set("now", 60_000);
  timer.close();
  assertEquals(rung, ["now"]);
  assertEquals(clock.timers, 0);
  set("after", 10)();
  assertEquals(clock.timers, 0);
  set("alone", 10);
  await clock.pass(10);
  assertEquals(rung, ["now", "alone"]);
});
