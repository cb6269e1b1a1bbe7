import { assertEquals, assertLess } from "@std/assert";
import { SharedTimer } from "../../redis/shared_timer.ts";
import { FakeClock } from "../../testing/core/fake_clock.ts";
import { randomOf, seedOf } from "../../testing/processes/random.ts";
import { say } from "../../testing/processes/figures.ts";
import { cpuTimeMs } from "../../testing/core/cpu_time.ts";

function open() {
  const clock = new FakeClock();
  const timer = new SharedTimer(clock);
  const called: string[] = [];
  const set = (name: string, delayMs: number) => timer.schedule(() => called.push(name), delayMs);
  return { clock, timer, called, set };
}

Deno.test("SharedTimer calls back in the order of the deadlines, with one timer", async () => {
  const { clock, called, set } = open();
  set("late", 300);
  set("early", 100);
  set("middle", 200);
  assertEquals(clock.timers, 1);
  await clock.pass(150);
  assertEquals(called, ["early"]);
  await clock.pass(150);
  assertEquals(called, ["early", "middle", "late"]);
  assertEquals(clock.timers, 0);
});

Deno.test("SharedTimer does not keep the process alive when all deadlines are cancelled", async () => {
  const { clock, called, set } = open();
  for (let i = 0; i < 100; i++) set("never", 1_000)();
  assertEquals([clock.timers, clock.held], [1, 0]);
  set("later", 2_000);
  set("never", 3_000)();
  assertEquals([clock.timers, clock.held], [1, 1]);
  await clock.pass(2_000);
  assertEquals(called, ["later"]);
});

Deno.test("SharedTimer callbacks can cancel a deadline that is due, and set a new one", async () => {
  const { clock, timer, called, set } = open();
  let cancel = () => {};
  timer.schedule(() => {
    cancel();
    set("second", 50);
  }, 100);
  cancel = set("never", 100);
  await clock.pass(200);
  assertEquals(called, ["second"]);
});

Deno.test("SharedTimer.close() calls back all deadlines, and each later one gets its own timer", async () => {
  const { clock, timer, called, set } = open();
  set("now", 60_000);
  timer.close();
  assertEquals(called, ["now"]);
  assertEquals(clock.timers, 0);
  set("after", 10)();
  assertEquals(clock.timers, 0);
  set("alone", 10);
  await clock.pass(10);
  assertEquals(called, ["now", "alone"]);
});

Deno.test("SharedTimer calls back a deadline that a callback sets for the same moment only after it", async () => {
  const { clock, timer, called, set } = open();
  timer.schedule(() => {
    called.push("first");
    set("again", 0);
  }, 100);
  set("second", 100);
  await clock.pass(100);
  assertEquals(called, ["first", "second", "again"]);
  let due = () => {};
  const manual = new SharedTimer({
    now: () => clock.now(),
    wall: () => clock.wall(),
    schedule: (callback: () => void) => (due = callback, () => {}),
  });
  called.length = 0;
  manual.schedule(() => {
    called.push("first");
    manual.schedule(() => called.push("again"), 0);
  }, 100);
  clock.block(100);
  due();
  assertEquals(called, ["first"], "the timer fires once more for it");
  due();
  assertEquals(called, ["first", "again"]);
});

Deno.test("SharedTimer calls back random deadlines in order, and no cancelled one", async () => {
  const seed = seedOf();
  say(`seed ${seed}`);
  const random = randomOf(seed);
  const { clock, timer } = open();
  const called: number[] = [];
  const expected: number[] = [];
  const cancels: (() => void)[] = [];
  for (let i = 0; i < 1_000; i++) {
    const delayMs = Math.floor(random() * 200);
    const cancel = timer.schedule(() => called.push(delayMs), delayMs);
    if (random() < 0.5) cancels.push(cancel);
    else expected.push(delayMs);
  }
  for (const cancel of cancels) cancel();
  await clock.pass(200);
  assertEquals(called, expected.sort((a, b) => a - b));
  assertEquals(clock.timers, 0);
});

Deno.test("SharedTimer does not look at all deadlines each time that one is due", () => {
  const clock = new FakeClock();
  let due = () => {};
  const runtime = {
    now: () => clock.now(),
    wall: () => clock.wall(),
    schedule: (callback: () => void) => (due = callback, () => {}),
  };
  const timer = new SharedTimer(runtime);
  for (let i = 0; i < 50_000; i++) timer.schedule(() => {}, 1_000 + i);
  clock.block(1_000);
  const startMs = cpuTimeMs();
  for (let i = 0; i < 50_000; i++) {
    due();
    clock.block(1);
  }
  assertLess(cpuTimeMs() - startMs, 10_000); // looking at all takes 18 s
});
