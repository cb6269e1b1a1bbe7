import { assert, assertEquals, assertLessOrEqual } from "@std/assert";
import { LeaseSchedule, type ScheduledLease } from "../../core/lease/lease_schedule.ts";
import { FakeClock } from "../../testing/core/fake_clock.ts";

/** A lease that is due at a given time, and then once more after a pause. */
class FakeLease implements ScheduledLease {
  atMs = Infinity;
  order = 0;
  index = -1;
  dueMs: number;
  ticks: number[] = [];
  #nextMs: number;

  constructor(dueMs: number, nextMs = Infinity) {
    this.dueMs = dueMs;
    this.#nextMs = nextMs;
  }

  tick(nowMs: number): number {
    this.ticks.push(nowMs);
    if (nowMs < this.dueMs) return this.dueMs;
    this.dueMs = this.#nextMs;
    this.#nextMs = Infinity;
    return this.dueMs;
  }
}

const FAR_MS = 1_000_000;

Deno.test("LeaseSchedule looks only at leases that are due, however many there are", async () => {
  for (const count of [100, 100_000]) {
    const clock = new FakeClock();
    const schedule = new LeaseSchedule<FakeLease>(clock);
    const idle = Array.from({ length: count }, (_, i) => new FakeLease(FAR_MS + i));
    for (const lease of idle) schedule.add(lease);
    const busy = new FakeLease(clock.now() + 1_000, clock.now() + 2_000);
    schedule.add(busy);
    await clock.pass(2_500);
    assertLessOrEqual(busy.ticks.length, 3);
    assert(busy.ticks.length >= 2);
    assertEquals(idle.reduce((sum, { ticks }) => sum + ticks.length, 0), 0);
  }
});

Deno.test("LeaseSchedule lets leases that are due within 100 ms go together", async () => {
  const clock = new FakeClock();
  const schedule = new LeaseSchedule<FakeLease>(clock);
  const nowMs = clock.now();
  const [first, soon, later] = [500, 600, 700].map((ms) => new FakeLease(nowMs + ms));
  for (const lease of [later!, soon!, first!]) schedule.add(lease);
  assertEquals(clock.timers, 1);
  await clock.pass(550);
  assertEquals([first!.ticks.length, soon!.ticks.length, later!.ticks.length], [1, 1, 0]);
  await clock.pass(500);
  assertEquals([first, soon, later].map((lease) => lease!.dueMs), [Infinity, Infinity, Infinity]);
});

Deno.test("LeaseSchedule has no timer for a lease that was removed, beside one that is never due", async () => {
  const clock = new FakeClock();
  const schedule = new LeaseSchedule<FakeLease>(clock);
  const [endless, ended] = [new FakeLease(Infinity), new FakeLease(clock.now() + 60_000)];
  schedule.add(endless);
  schedule.add(ended);
  assertEquals(clock.timers, 1);
  schedule.remove(ended);
  assertEquals(clock.timers, 0, "it would keep the process alive");
  const next = new FakeLease(clock.now() + 500);
  schedule.add(next);
  await clock.pass(500);
  assertEquals(next.ticks.length, 1);
});

Deno.test("LeaseSchedule.update() makes a lease due earlier; one that is removed is never due", async () => {
  const clock = new FakeClock();
  const schedule = new LeaseSchedule<FakeLease>(clock);
  const nowMs = clock.now();
  const [earlier, removed] = [new FakeLease(nowMs + 9_000), new FakeLease(nowMs + 400)];
  schedule.add(earlier);
  schedule.add(removed);
  earlier.dueMs = nowMs + 300;
  schedule.update(earlier);
  schedule.remove(removed);
  schedule.update(removed);
  await clock.pass(1_000);
  assertEquals([earlier.ticks.length, removed.ticks.length], [1, 0]);
  assertEquals([...schedule], [earlier]);
});

Deno.test("LeaseSchedule knows the lease that it looks at, and not one that is over", async () => {
  const clock = new FakeClock();
  const schedule = new LeaseSchedule<ScheduledLease>(clock);
  const known: ScheduledLease[] = [];
  const lease: ScheduledLease = {
    ...{ atMs: Infinity, order: 0, index: -1, dueMs: clock.now() + 300 },
    tick: () => {
      known.push(...schedule);
      return null;
    },
  };
  schedule.add(lease);
  await clock.pass(300);
  assert(known.length === 1 && known[0] === lease);
  assertEquals([[...schedule].length, clock.timers], [0, 0]);
});

Deno.test("LeaseSchedule looks at a lease that is added when all earlier ones were removed", async () => {
  const clock = new FakeClock();
  const schedule = new LeaseSchedule<FakeLease>(clock);
  const nowMs = clock.now();
  const [removed, added] = [new FakeLease(nowMs + 300), new FakeLease(nowMs + 900)];
  schedule.add(removed);
  schedule.remove(removed);
  assertEquals(clock.timers, 0);
  schedule.add(added);
  await clock.pass(1_000);
  assertEquals([removed.ticks.length, added.ticks.length], [0, 1]);
});

Deno.test("LeaseSchedule looks in time at an early lease when a later one is added after it", async () => {
  const clock = new FakeClock();
  const schedule = new LeaseSchedule<FakeLease>(clock);
  const nowMs = clock.now();
  const [early, late] = [new FakeLease(nowMs + 300), new FakeLease(nowMs + 900)];
  schedule.add(early);
  schedule.add(late);
  assertEquals(clock.timers, 1);
  await clock.pass(300);
  assertEquals([early.ticks, late.ticks], [[nowMs + 300], []]);
  await clock.pass(600);
  assertEquals(late.ticks, [nowMs + 900]);
});

Deno.test("LeaseSchedule looks at leases of the same moment in the order in which they were added", async () => {
  const clock = new FakeClock();
  const schedule = new LeaseSchedule<FakeLease>(clock);
  const atMs = clock.now() + 300;
  const order: number[] = [];
  for (let i = 0; i < 9; i++) {
    const lease = new FakeLease(atMs);
    const tick = lease.tick.bind(lease);
    schedule.add(Object.assign(lease, { tick: (nowMs: number) => (order.push(i), tick(nowMs)) }));
  }
  await clock.pass(300);
  assertEquals(order, [0, 1, 2, 3, 4, 5, 6, 7, 8]);
});
