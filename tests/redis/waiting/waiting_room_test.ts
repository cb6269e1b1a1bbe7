import { assertEquals, assertLess } from "@std/assert";
import { instant } from "../../../core/time/clock.ts";
import { lockKeys } from "../../../redis/protocol/keys.ts";
import type { Queued } from "../../../redis/protocol/wire.ts";
import { SPREAD_MS, type Waiter, WaitingRoom } from "../../../redis/waiting/waiting_room.ts";
import { FakeClock } from "../../../testing/core/fake_clock.ts";
import { cpuTimeMs } from "../../../testing/core/cpu_time.ts";

const ANSWER: Queued = {
  state: "queued",
  serverMs: 0,
  leftMs: 60_000,
  ticket: 0,
  position: 9,
  waiters: 9,
  inboxWaiters: 9,
  holderIsOurs: true,
  ownHolder: null,
};

function open() {
  const clock = new FakeClock();
  const room = new WaitingRoom(clock, { listens: true, isMute: false }, 3_000);
  const asks: number[] = [];
  const outages: number[] = [];
  const enqueue = (waiter: Waiter, answer: Queued = ANSWER) => {
    return room.enqueue(waiter, answer, { sent: { ...instant(clock), epoch: 1 }, serverMs: 0 });
  };
  const add = (ticket: number, limit: number | null = null): Waiter => {
    const waiter: Waiter = {
      keys: lockKeys("", "n"),
      value: String(ticket),
      ticket,
      leaseMode: limit === null ? "exclusive" : "shared",
      onMessage: () => {},
      onAskDue: () => asks.push(ticket),
      onOutage: () => outages.push(ticket),
      onAborted: () => {},
    };
    enqueue(waiter);
    return waiter;
  };
  return { clock, room, asks, outages, enqueue, add };
}

Deno.test("WaitingRoom.askNow() makes the foremost waiter ask, and no other", () => {
  const { room, asks, add } = open();
  const first = add(1);
  add(2);
  room.askNow();
  room.dequeue(first);
  room.askNow();
  assertEquals(asks, [1, 2]);
});

Deno.test("WaitingRoom.askNow() makes the waiter with the lowest ticket ask, whose answer may have come last", () => {
  const { room, asks, enqueue, add } = open();
  const waiters = [2, 4, 1, 3].map((ticket) => add(ticket));
  for (const waiter of waiters) assertEquals(enqueue(waiter), waiter.ticket === 1);
  for (const waiter of waiters.toSorted((a, b) => a.ticket - b.ticket)) {
    room.askNow();
    room.dequeue(waiter);
  }
  assertEquals(asks, [1, 2, 3, 4]);
});

Deno.test("WaitingRoom.enqueue() returns true only for a repeated answer to the foremost waiter", () => {
  const { enqueue, add } = open();
  const [first, second] = [add(1), add(2)];
  assertEquals([enqueue(first), enqueue(second)], [true, false]);
});

Deno.test("WaitingRoom.compare() makes all waiters ask in order if the server knows fewer", () => {
  const { room, asks, add } = open();
  for (const ticket of [3, 1, 2]) add(ticket);
  room.compare(3);
  assertEquals(asks, []);
  room.compare(2);
  assertEquals(asks, [1, 2, 3]);
});

Deno.test("WaitingRoom.compare() looks a second time before all waiters ask if one of them may share the lock", async () => {
  const { clock, room, asks, add } = open();
  const [, reader] = [add(1), add(2, 0)];
  const lookAgain = async () => {
    await clock.pass(499);
    assertEquals(asks, []);
    await clock.pass(1);
    assertEquals(asks.splice(0), [1], "the foremost waiter asks for all");
  };
  room.compare(1);
  room.compare(1); // the answer to an ask that was under way
  await lookAgain();
  room.compare(2); // the message has come
  assertEquals(asks, []);
  room.compare(1);
  await lookAgain();
  room.compare(1);
  assertEquals(asks.splice(0), [1, 2]);
  await clock.pass(SPREAD_MS);
  asks.length = 0;
  room.dequeue(reader!);
  room.compare(0);
  assertEquals(asks, [1], "exclusive grants are made one at a time");
});

Deno.test("WaitingRoom.onInboxChange() makes the next look count at once, as messages were lost", () => {
  const { room, asks, add } = open();
  for (const ticket of [1, 2]) add(ticket, 3);
  room.onInboxChange();
  assertEquals(asks.splice(0), [1]);
  room.compare(1);
  assertEquals(asks, [1, 2]);
});

Deno.test("WaitingRoom.compare() spreads the asks of many waiters over SPREAD_MS, one round at a time", async () => {
  const { clock, room, asks, add } = open();
  const count = 10_000;
  const waiters = Array.from({ length: count }, (_, i) => add(i + 1));
  room.compare(0);
  const atOnce = asks.length;
  assertLess(atOnce, count / 10);
  room.compare(0);
  assertEquals(asks.length, atOnce, "a round is under way");
  await clock.pass(SPREAD_MS);
  assertEquals(asks, waiters.map(({ ticket }) => ticket));
  room.compare(0);
  assertEquals(asks.length, count, "the last asks may be unanswered");
  await clock.pass(SPREAD_MS);
  asks.length = 0;
  room.compare(0);
  assertEquals(asks.length, atOnce);
});

Deno.test("WaitingRoom.onOutage() reports an outage to each waiter that is still here", () => {
  const { room, asks, outages, add } = open();
  const [first] = [add(1), add(2), add(3)];
  room.dequeue(first);
  room.onOutage();
  assertEquals([asks, outages], [[], [2, 3]]);
});

Deno.test("WaitingRoom has no timer left when its last waiter leaves in a round", () => {
  const { clock, room, add } = open();
  const waiters = [add(1), add(2)];
  room.compare(0);
  for (const waiter of waiters) room.dequeue(waiter);
  assertEquals([room.waiters.size, clock.timers], [0, 0]);
});

Deno.test("WaitingRoom takes constant time to add and remove when 100,000 wait", () => {
  const { room, add } = open();
  const startMs = cpuTimeMs();
  const waiters = Array.from({ length: 100_000 }, (_, i) => add(i));
  for (const waiter of waiters) {
    room.askNow();
    room.dequeue(waiter);
  }
  assertLess(cpuTimeMs() - startMs, 5_000);
});

Deno.test("WaitingRoom makes its foremost waiter ask every 2 s, from its last answer on, and 500 ms after the one before it has left", async () => {
  const { clock, room, asks, enqueue, add } = open();
  const first = add(1);
  await clock.pass(1_000);
  enqueue(first);
  await clock.pass(1_799);
  assertEquals(asks, [], "it was answered a second after it came");
  await clock.pass(201);
  assertEquals(asks, [1]);
  await clock.pass(2_000);
  assertEquals(asks.splice(0), [1, 1], "also if no answer has come");
  const second = add(2);
  enqueue(first);
  room.dequeue(first);
  add(3);
  assertEquals(clock.timers, 1);
  await clock.pass(499);
  assertEquals(asks, []);
  await clock.pass(1);
  assertEquals(asks.splice(0), [2]);
  enqueue(second);
  const third = add(4);
  enqueue(third, { ...ANSWER, leftMs: 40, position: 1 });
  await clock.pass(59);
  assertEquals(asks, [], "only the foremost waiter can be the first in line");
  await clock.pass(21);
  assertEquals(asks, [2], "the lock expires sooner than its own answer said");
});

Deno.test("WaitingRoom counts each waiter that may share the lock once, and leaves no timer of a second look", async () => {
  const { clock, room, asks, enqueue, add } = open();
  const [first, reader] = [add(1), add(2, 0)];
  enqueue(reader);
  room.dequeue(reader);
  room.compare(0);
  assertEquals(asks.splice(0), [1], "nobody is left who may share it");
  await clock.pass(SPREAD_MS);
  asks.length = 0;
  room.dequeue(reader); // it is not here any more
  const other = add(3, 0);
  room.compare(1);
  assertEquals(asks, [], "it looks a second time");
  for (const waiter of [first, other]) room.dequeue(waiter);
  assertEquals(clock.timers, 0);
});
