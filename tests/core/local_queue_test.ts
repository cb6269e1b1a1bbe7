import { assert, assertEquals, assertRejects } from "@std/assert";
import { LocalQueue, type Turn } from "../../core/lease/local_queue.ts";
import type { WaitInfo } from "../../mod.ts";
import { countListeners } from "../../testing/core/count_listeners.ts";
import { FakeClock } from "../../testing/core/fake_clock.ts";
import { waitUntil } from "../../testing/servers/wait.ts";

const SIGNAL = new AbortController().signal;
const SHARED = { mode: "shared" } as const;

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
  assertEquals([listeners(), queue.waiterCount("n")], [1, 2]);
  first.end();
  await waits[0];
  assertEquals([listeners(), queue.waiterCount("n")], [1, 1]);
  controller.abort(new Error("enough"));
  await assertRejects(() => waits[1]!, Error, "enough");
  assertEquals([listeners(), queue.waiterCount("n")], [0, 0]);
  await assertRejects(() => queue.enter("n", { signal }), Error, "enough");
  assertEquals([listeners(), queue.waiterCount("n")], [0, 0]);
});

Deno.test("LocalQueue gives turns to shared waiters in steps of 64, and forgets a name that is unused", async () => {
  const clock = new FakeClock();
  const queue = new LocalQueue(clock);
  const turns: Turn[] = [];
  const wait = (count: number) => {
    const onTurn = (turn: Turn) => void turns.push(turn);
    for (let i = 0; i < count; i++) queue.enter("n", { ...SHARED, onTurn });
  };
  const first = queue.tryEnter("n")!;
  wait(200);
  first.end();
  assertEquals([turns.length, clock.timers], [64, 1]);
  turns[0]!.end();
  assertEquals([turns.length, clock.timers], [128, 1]);
  await clock.pass(0);
  assertEquals([turns.length, clock.timers], [200, 0]);
  for (const turn of turns) turn.end();
  assertEquals(queue.names(), []);

  const second = queue.tryEnter("n")!;
  wait(64);
  second.end();
  for (const turn of turns) turn.end();
  const next = queue.tryEnter("n")!;
  await clock.pass(0); // the step in which the second one was to go on
  assertEquals([next.isCurrent, queue.tryEnter("n")], [true, null]);
});

Deno.test("LocalQueue.rejectAll() rejects all waiters, those too that could have a turn now, and ends no turn", async () => {
  const queue = new LocalQueue();
  const turn = queue.tryEnter("n", SHARED)!;
  const outcomes = Promise.allSettled([
    queue.enter("n", {}),
    queue.enter("n", SHARED),
  ]);
  queue.rejectAll(new Error("it is over"));
  for (const outcome of await outcomes) {
    assert(outcome.status === "rejected");
    assertEquals(outcome.reason.message, "it is over");
  }
  assertEquals([turn.isCurrent, queue.waiterCount("n")], [true, 0]);
  turn.end();
  assertEquals(queue.names(), []);
});

/** Waits, and collects the reports as texts: `"2 of 3"`. */
function waiting(queue: LocalQueue, signal = SIGNAL) {
  const reports: string[] = [];
  const onWait = ({ position, waiters }: WaitInfo) =>
    void reports.push(`${position} of ${waiters}`);
  const turn = queue.enter("n", { signal, onWait });
  turn.catch(() => {});
  return { reports, turn };
}

Deno.test("LocalQueue reports each place that has changed, and changes of one step together", async () => {
  const queue = new LocalQueue();
  const first = queue.tryEnter("n")!;
  const abort = new AbortController();
  const waits = [waiting(queue), waiting(queue, abort.signal), waiting(queue), waiting(queue)];
  const last = () => waits.map(({ reports }) => reports.at(-1));
  await waitUntil("all know the number", () => last().every((text) => text!.endsWith("of 4")));
  assertEquals(waits[3]!.reports, ["4 of 4"]);
  abort.abort();
  first.end();
  await waitUntil("all know their places", () => last()[3] === "2 of 2");
  assertEquals([last()[2], waits[3]!.reports], ["1 of 2", ["4 of 4", "2 of 2"]]);
  queue.waitAhead("n", { mode: "exclusive", sinceMs: 0 });
  await waitUntil("one waits ahead of them", () => last()[2] === "2 of 3");
  assertEquals(last()[3], "3 of 3");
  queue.waitAhead("n", null);
  (await waits[0]!.turn).end();
  (await waits[2]!.turn).end();
  (await waits[3]!.turn).end();
  assertEquals(queue.tryEnter("n")!.isCurrent, true);
});

Deno.test("LocalQueue reports to new waiters when all earlier ones have left before they were told", async () => {
  const queue = new LocalQueue();
  const first = queue.tryEnter("n")!;
  const abort = new AbortController();
  const gone = [waiting(queue, abort.signal), waiting(queue, abort.signal)];
  abort.abort();
  const [next, last] = [waiting(queue), waiting(queue)];
  await waitUntil("one knows of the other", () => next.reports.includes("1 of 2"));
  assertEquals(gone.map(({ reports }) => reports), [["1 of 1"], ["2 of 2"]]);
  first.end();
  (await next.turn).end();
  (await last.turn).end();
});

Deno.test("LocalQueue reports a change 100 ms after the last one at the earliest", async () => {
  const queue = new LocalQueue();
  const first = queue.tryEnter("n")!;
  const aborts = [new AbortController(), new AbortController()];
  for (const { signal } of aborts) waiting(queue, signal);
  const { reports, turn } = waiting(queue);
  const startMs = performance.now();
  aborts[0]!.abort();
  await waitUntil("a change is reported", () => reports.length === 2);
  aborts[1]!.abort();
  await waitUntil("the next one is reported", () => reports.length === 3);
  const tookMs = performance.now() - startMs;
  assert(tookMs >= 99, `${tookMs} ms`);
  assertEquals(reports, ["3 of 3", "2 of 2", "1 of 1"]);
  first.end();
  (await turn).end();
});

Deno.test("LocalQueue.enter() rejects with what onWait throws, at first or later, and others go on", async () => {
  const queue = new LocalQueue();
  const first = queue.tryEnter("n")!;
  const failing = (at: number) => {
    let calls = 0;
    const onWait = () => {
      if (++calls === at) throw new Error(`call ${at}`);
    };
    return queue.enter("n", { signal: SIGNAL, onWait });
  };
  await assertRejects(() => failing(1), Error, "call 1");
  const next = waiting(queue);
  let thrown: unknown;
  failing(2).catch((error) => thrown = error);
  const last = waiting(queue);
  await waitUntil("it is told of the other waiter", () => thrown !== undefined);
  assertEquals([String(thrown), queue.waiterCount("n")], ["Error: call 2", 2]);
  first.end();
  (await next.turn).end();
  (await last.turn).end();
});

Deno.test("LocalQueue.enter() gets a turn that its own onWait ends", async () => {
  const queue = new LocalQueue();
  const first = queue.tryEnter("n")!;
  const turn = await queue.enter("n", { signal: SIGNAL, onWait: () => void first.end() });
  assertEquals([turn.isCurrent, turn.end()], [true, true]);
});
