import { assertEquals } from "@std/assert";
import type { FaultEvent, History } from "../../testing/faults/history.ts";
import {
  eventsOf,
  first,
  freeze,
  judge,
  kill,
  kindsOf,
  left,
  type Story,
} from "../../testing/faults/stories.ts";

Deno.test("check() reports calls, leases and releases that never end, unless their process died", () => {
  const run = (story: Story, more: Partial<History> = {}) => kindsOf(judge([story], more));
  for (const story of [{ invoke: 10, queued: 12 }, first, { ...first, releasing: 30 }]) {
    assertEquals(run(story), [["1 unfinished"], []]);
    assertEquals(run(story, { faults: [kill] }), [[], []]);
    assertEquals(run(story, { faults: [{ ...kill, target: "w1" }] }), [[], []]);
    assertEquals(run(story, { faults: [{ ...kill, target: "w11" }] }), [["1 unfinished"], []]);
    assertEquals(run(story, { faults: [freeze] }), [["1 unfinished"], []]);
    const restarted = eventsOf({ worker: "w1.1", invoke: 90, failed: 95 });
    assertEquals(
      run({ invoke: 1, failed: 2 }, { events: [...eventsOf(story), ...restarted] })[0],
      [],
    );
  }
  assertEquals(run({ ...first, lost: 100 }), [[], []], "lost is an end");
});

Deno.test("check() reports a lease that was still open long before its worker was killed", () => {
  const run = (story: Story, diedUs: number) =>
    kindsOf(judge([story, { name: "m", invoke: diedUs - 1, failed: diedUs }], {
      crashed: ["w1.0"],
    }));
  for (const story of [first, { ...first, releasing: 30 }]) {
    assertEquals(run(story, 10e6), [[], []], "it was killed before it could");
    assertEquals(run(story, 20e6), [["1 unfinished"], []]);
  }
  assertEquals(run({ invoke: 10, queued: 12 }, 20e6), [[], []], "one may wait for long");
});

Deno.test("check() reports a history that contradicts itself", () => {
  const twice = eventsOf({ ...first, ...left }).flatMap((event) => [event, event]);
  const [violations] = kindsOf(judge([], { events: twice }));
  assertEquals(violations, ["1 malformed"]);
});

/** w1 is in the queue at 12; w2, called at 30, is granted the lock before it. */
const overtaken: Story = { invoke: 10, queued: 12, granted: 80, until: 500, token: "9", ...left };
const overtaker: Story = {
  ...{ worker: "w2.0", invoke: 30, granted: 40, until: 70, token: "8" },
  ...{ releasing: 50, released: 51 },
};

Deno.test("check() reports a grant out of order", () => {
  const run = (a: Partial<Story>, b: Partial<Story>, more: Partial<History> = {}) =>
    kindsOf(judge([{ ...overtaken, ...a }, { ...overtaker, ...b }], more));
  assertEquals(run({}, {}), [["1 inversion"], []]);
  assertEquals(run({}, { invoke: 11 }), [[], []], "called before the waiter was in the queue");
  assertEquals(run({}, { steals: true }), [[], []], "did not wait for its turn");
  assertEquals(run({}, {}, { fifo: false }), [[], []]);
  assertEquals(run({}, {}, { fifo: false, strategy: "file" }), [[], []], "two processes");
  const one = run({}, { worker: "w1.0" }, { fifo: false, strategy: "file" });
  assertEquals(one, [["1 inversion"], []], "within a process");
});

Deno.test("check() excuses a grant out of order when the waiter was parked", () => {
  const run = (fault: Partial<FaultEvent>) =>
    kindsOf(judge([overtaken, overtaker], { faults: [{ ...freeze, ...fault }] }));
  const [excused, found] = [[[], ["1 inversion"]], [["1 inversion"], []]];
  assertEquals(run({}), excused);
  assertEquals(run({ target: "w1.0" }), excused);
  assertEquals(run({ target: "proxy of w1" }), excused);
  assertEquals(run({ target: "redis", fault: "restart" }), excused, "hits all");
  assertEquals(run({ target: "w2" }), found, "another worker");
  assertEquals(run({ target: "w1", fault: "delay" }), found, "a delay parks nobody");
  assertEquals(run({ target: "w1", parks: false }), found);
  assertEquals(run({ atUs: 45, untilUs: 60 }), found, "after it was overtaken");
  const blocked = (worker: string) => {
    const event = { worker, call: "b", name: "m", token: "1", deadlineUs: 90, blockedUs: 30 };
    const events = [
      ...eventsOf(overtaken),
      ...eventsOf(overtaker),
      { ...event, kind: "invoke", atUs: 50 } as const,
      { ...event, kind: "failed", atUs: 51, blockedUs: 0 } as const,
    ];
    return kindsOf(judge([], { events }));
  };
  assertEquals(blocked("w1.0"), excused);
  assertEquals(blocked("w3.0"), found);
});

Deno.test("check() does not excuse an inversion long after the fault was healed", () => {
  const shift = 20e6;
  const late = {
    ...{ ...overtaken, granted: 80 + 2 * shift, until: 3 * shift },
    ...{ releasing: 2.1 * shift, released: 2.2 * shift },
  };
  const [invoke, granted, until] = [30 + shift, 40 + shift, 1.9 * shift];
  const [releasing, released] = [1.5 * shift, 1.6 * shift];
  const other = { ...overtaker, invoke, granted, until, releasing, released };
  const run = (stories: Story[]) => kindsOf(judge(stories, { faults: [freeze] }));
  assertEquals(run([late, other]), [["1 inversion"], []]);
  assertEquals(run([late, overtaker]), [[], ["1 inversion"]]);
  const both = run([late, { ...overtaker, token: "7" }, other]);
  assertEquals(both, [["1 inversion"], []], "one of two has no excuse");
});

Deno.test("check() reports a waiter that many later calls overtake for a long time", () => {
  const others = (count: number) =>
    Array.from({ length: count }, (_, i): Story => {
      const granted = 1_000 * (i + 1);
      return {
        ...{ worker: "w2.0", invoke: granted - 10, granted, until: granted + 900 },
        ...{ token: String(i + 1), releasing: granted + 100, released: granted + 101 },
      };
    });
  const run = (count: number, failed: number, faults: FaultEvent[] = []) =>
    kindsOf(judge([{ invoke: 10, failed }, ...others(count)], { fifo: false, faults }));
  assertEquals(run(300, 40e6), [["1 starved"], []]);
  assertEquals(run(300, 20e6), [[], []], "not for long");
  assertEquals(run(150, 40e6), [[], []], "not by many");
  assertEquals(run(300, 40e6, [freeze]), [[], ["1 starved"]]);
  const dead = (diedUs: number) => {
    const stories = [{ invoke: 10 }, { name: "m", invoke: diedUs - 1, failed: diedUs }];
    return kindsOf(judge([...stories, ...others(300)], { fifo: false, crashed: ["w1.0"] }));
  };
  assertEquals(dead(40e6), [["1 starved"], []], "it was killed after that");
  assertEquals(dead(20e6), [[], []], "it was killed before");
  const before = { worker: "w3.0", invoke: 400_000, failed: 40e6 };
  const late = kindsOf(judge([before, ...others(300)], { fifo: false }));
  assertEquals(late, [[], []], "they were called before it");
});
