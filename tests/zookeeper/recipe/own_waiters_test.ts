import { assert, assertEquals } from "@std/assert";
import { OwnWaiters } from "../../../zookeeper/recipe/own_waiters.ts";

function entering(waiters: OwnWaiters, sequence: number, firsts: number[]) {
  const waiter = {
    sequence,
    onFirst: () => void firsts.push(sequence),
    onHolderLeaving: () => {},
  };
  waiters.enter(waiter);
  return waiter;
}

Deno.test("OwnWaiters.leave() notifies the next waiter when the first one leaves", () => {
  const waiters = new OwnWaiters();
  const firsts: number[] = [];
  assert(waiters.isEmpty);
  const [a, b, c] = [3, 5, 6].map((sequence) => entering(waiters, sequence, firsts));
  assert(waiters.isFirst(a!) && !waiters.isFirst(b!));
  waiters.leave(b!);
  assertEquals(firsts, []);
  waiters.leave(a!);
  waiters.leave(a!);
  assertEquals(firsts, [6]);
  waiters.leave(c!);
  assert(waiters.isEmpty);
});

Deno.test("OwnWaiters.enter() puts a waiter whose znode is older before the others", () => {
  const waiters = new OwnWaiters();
  const firsts: number[] = [];
  const [b, c] = [entering(waiters, 5, firsts), entering(waiters, 7, firsts)];
  const a = entering(waiters, 2, firsts);
  entering(waiters, 6, firsts);
  assert(waiters.isFirst(a));
  for (const waiter of [a, b]) waiters.leave(waiter);
  assertEquals(firsts, [5, 6]);
  waiters.leave(c);
  assertEquals(firsts, [5, 6]);
});
