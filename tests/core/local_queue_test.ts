import { assert, assertEquals, assertRejects } from "@std/assert";
import { LocalQueue } from "../../core/lease/local_queue.ts";
import { countListeners } from "../../testing/core/count_listeners.ts";

const SIGNAL = new AbortController().signal;

Deno.test("Turn.end() ends no later turn when it is called again", async () => {
  const queue = new LocalQueue();
  const first = queue.tryEnter("n")!;
  assert(first.isCurrent);
  assertEquals(first.end(), true);
  const second = queue.tryEnter("n")!;
  assertEquals([first.isCurrent, first.end()], [false, false]);
  assert(second.isCurrent);
  assertEquals(queue.tryEnter("n"), null, "the second turn goes on");
  const third = queue.enter("n", { signal: SIGNAL });
  second.end();
  assertEquals([second.end(), (await third).isCurrent], [false, true]);
});

Deno.test("Turn.end() does nothing when a turn has ended and nobody waits", () => {
  const queue = new LocalQueue();
  const turn = queue.tryEnter("n")!;
  turn.end();
  assertEquals([turn.isCurrent, turn.end()], [false, false]);
});

Deno.test("LocalQueue.enter() leaves no listener at the signal, however the wait ends", async () => {
  const controller = new AbortController();
  const { signal } = controller;
  const listeners = countListeners(signal);
  const queue = new LocalQueue();
  const first = queue.tryEnter("n")!;
  const waits = [queue.enter("n", { signal }), queue.enter("n", { signal })];
  assertEquals([listeners(), queue.waiterCount("n")], [2, 2]);
  first.end();
  await waits[0];
  assertEquals([listeners(), queue.waiterCount("n")], [1, 1]);
  controller.abort(new Error("enough"));
  await assertRejects(() => waits[1]!, Error, "enough");
  assertEquals([listeners(), queue.waiterCount("n")], [0, 0]);
  await assertRejects(() => queue.enter("n", { signal }), Error, "enough");
  assertEquals([listeners(), queue.waiterCount("n")], [0, 0]);
});
