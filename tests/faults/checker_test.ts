import { assert, assertEquals, assertMatch } from "@std/assert";
import { randomOf, seedOf } from "../processes/random.ts";
import { say } from "../processes/figures.ts";
import { check, type Verdict } from "./checker.ts";
import type { FaultEvent, History, WorkerEvent } from "./history.ts";
import { randomHistory } from "./random_history.ts";

/** One call in a few words: when what happened. */
interface Story extends Partial<Omit<WorkerEvent, "kind">> {
  readonly invoke: number;
  readonly queued?: number;
  readonly granted?: number;
  readonly until?: number;
  readonly renewed?: readonly (readonly [atUs: number, deadlineUs: number])[];
  readonly lost?: number;
  readonly wrote?: readonly number[];
  readonly refused?: readonly number[];
  readonly releasing?: number;
  readonly released?: number;
  readonly failed?: number;
}

let calls = 0;

function told(story: Story): WorkerEvent[] {
  const call = `c${++calls}`;
  const { worker = "w1.0", name = "n", token, steals } = story;
  const of = (kind: WorkerEvent["kind"], atUs?: number, more: Partial<WorkerEvent> = {}) =>
    atUs === undefined ? [] : [{ atUs, worker, call, name, kind, ...more }];
  const fence = token === undefined ? {} : { token };
  const until = story.until === undefined ? {} : { deadlineUs: story.until };
  return [
    ...of("invoke", story.invoke, steals ? { steals } : {}),
    ...of("queued", story.queued),
    ...of("granted", story.granted, { ...fence, ...until }),
    ...(story.renewed ?? []).flatMap(([atUs, deadlineUs]) => of("renewed", atUs, { deadlineUs })),
    ...(story.wrote ?? []).flatMap((atUs) => of("wrote", atUs, fence)),
    ...(story.refused ?? []).flatMap((atUs) => of("refused", atUs, fence)),
    ...of("lost", story.lost),
    ...of("releasing", story.releasing),
    ...of("released", story.released),
    ...of("failed", story.failed),
  ];
}

function judge(stories: readonly Story[], more: Partial<History> = {}): Verdict {
  return check({
    ...{ seed: 1, strategy: "redis", fifo: true, startUs: 0, endUs: 1e9, faults: [], residue: [] },
    events: stories.flatMap(told),
    ...more,
  });
}

function kindsOf({ counts }: Verdict): [violations: string[], excused: string[]] {
  const list = (of: Partial<Record<string, number>>) =>
    Object.entries(of).map(([kind, count]) => `${count} ${kind}`);
  return [list(counts.violations), list(counts.excused)];
}

const flush: FaultEvent = { atUs: 25, fault: "flushall", target: "redis", destructive: true };
const freeze: FaultEvent = {
  ...{ atUs: 25, untilUs: 60, fault: "freeze", target: "w1", destructive: false },
};
const kill: FaultEvent = { atUs: 31, fault: "kill", target: "w1.0", destructive: false };

/** A lease of w1 that is provable until 100, and one of w2 granted at `granted`. */
const first = { invoke: 10, granted: 20, until: 100, token: "5" };
const second = { worker: "w2.0", invoke: 30, until: 500, token: "6" };
const left = { releasing: 400, released: 401 };

Deno.test("a clean history passes", () => {
  const verdict = judge([
    { ...first, wrote: [21], releasing: 40, released: 60 },
    { ...second, granted: 41, wrote: [50], ...left },
    { invoke: 31, queued: 32, failed: 50, reason: "aborted" },
    { name: "other", invoke: 20, granted: 30, token: "1", ...left }, // without a TTL
  ]);
  assertEquals(kindsOf(verdict), [[], []]);
  assert(verdict.isGood);
  const { calls, grants, failed, writes } = verdict.counts;
  assertEquals([calls, grants, failed, writes], [4, 3, 1, 2]);
});

Deno.test("two leases at once are found, until the deadline, the loss or the release", () => {
  const at = (story: Partial<Story>, granted: number) =>
    kindsOf(judge([{ ...first, ...story }, { ...second, granted, ...left }]));
  const ends = { releasing: 450, released: 451 };
  assertEquals(at(ends, 99), [["1 overlap"], []]);
  assertEquals(at(ends, 100), [[], []]);
  assertEquals(at({ ...ends, renewed: [[50, 150]] }, 120), [["1 overlap"], []]);
  assertEquals(at({ ...ends, renewed: [[50, 150]] }, 150), [[], []]);
  assertEquals(at({ ...ends, lost: 60 }, 59), [["1 overlap"], []]);
  assertEquals(at({ ...ends, lost: 60 }, 60), [[], []]);
  assertEquals(at({ releasing: 60, released: 90 }, 59), [["1 overlap"], []]);
  assertEquals(at({ releasing: 60, released: 90 }, 60), [[], []]);
});

Deno.test("an overlap names the leases and their events", () => {
  const { violations: [overlap] } = judge([
    { ...first, ...left },
    { ...second, granted: 90, ...left },
  ]);
  assertEquals(overlap?.message, "w2.0's lease 6 overlaps w1.0's lease 5 for 10 µs");
  assertEquals(overlap?.events.map(({ atUs }) => atUs), [10, 20, 30, 90, 400, 400, 401, 401]);
});

Deno.test("an overlap with several leases is found with each", () => {
  const third = { worker: "w3.0", invoke: 35, granted: 60, until: 500, token: "7", ...left };
  const verdict = judge([{ ...first, ...left }, { ...second, granted: 50, ...left }, third]);
  assertEquals(kindsOf(verdict), [["3 overlap"], []]);
});

Deno.test("an overlap is excused by a loss at the server between, if late writes are refused", () => {
  const run = (story: Partial<Story>, fault: FaultEvent) =>
    kindsOf(judge(
      [{ ...first, lost: 90, ...left, ...story }, { ...second, granted: 40, wrote: [50], ...left }],
      { faults: [fault] },
    ));
  assertEquals(run({ wrote: [45], refused: [55] }, flush), [[], ["1 overlap"]]);
  assertEquals(run({}, { ...flush, destructive: false }), [["1 overlap"], []]);
  assertEquals(run({}, { ...flush, atUs: 41 }), [["1 overlap"], []], "came after both");
  assertEquals(run({}, { ...flush, atUs: 5 }), [["1 overlap"], []], "came before both");
  assertEquals(run({}, { ...flush, atUs: 5, untilUs: 30 }), [[], ["1 overlap"]]);
  assertEquals(run({ wrote: [55] }, flush)[0], ["1 overlap", "1 stale-write"]);
});

Deno.test("an overlap with a thief is excused", () => {
  const thief = { ...second, granted: 40, wrote: [50], ...left };
  const robbed = { ...first, lost: 90, ...left };
  assertEquals(kindsOf(judge([robbed, { ...thief, steals: true }])), [[], ["1 overlap"]]);
  assertEquals(kindsOf(judge([robbed, thief])), [["1 overlap"], []]);
  const heir = { ...second, invoke: 35, granted: 46, token: "7", ...left };
  const brief = { ...thief, steals: true, wrote: [], releasing: 45, released: 46 };
  assertEquals(kindsOf(judge([robbed, brief, heir])), [[], ["2 overlap"]], "its successor, too");
  const late = { ...brief, invoke: 60, granted: 70, releasing: 75 };
  const [others] = kindsOf(judge([robbed, { ...heir, token: "6" }, { ...late, token: "7" }]));
  assertEquals(others, ["1 overlap"], "not those who came before the thief");
  const stubborn = { ...robbed, wrote: [60] };
  const [violations] = kindsOf(judge([stubborn, { ...thief, steals: true }]));
  assertEquals(violations, ["1 overlap", "1 stale-write"]);
});

Deno.test("a grant before the deadline of a dead worker's lease is found", () => {
  const run = (granted: number, more: Partial<History>) =>
    kindsOf(judge([first, { ...second, granted, ...left }], more));
  assertEquals(run(99, { faults: [kill] }), [["1 early-grant"], []]);
  assertEquals(run(100, { faults: [kill] }), [[], []]);
  assertEquals(run(99, { crashed: ["w1.0"] }), [["1 early-grant"], []]);
  assertEquals(run(99, { faults: [kill, flush] }), [[], ["1 early-grant"]]);
  const locked = { ...first, until: Infinity };
  const events = [locked, { ...second, granted: 40, ...left }];
  assertEquals(kindsOf(judge(events, { faults: [kill] })), [[], []], "nothing outlives it");
});

Deno.test("a grant that comes too late to be provable must respect the lease before, too", () => {
  const late = { ...second, granted: 60, until: 60, ...left };
  assertEquals(kindsOf(judge([{ ...first, ...left }, late])), [["1 early-grant"], []]);
});

Deno.test("tokens must grow where the events tell the order of the grants", () => {
  const run = (a: Partial<Story>, b: Partial<Story>, faults: FaultEvent[] = []) =>
    kindsOf(judge([
      { ...first, releasing: 40, released: 60, ...a },
      { ...second, granted: 41, ...left, ...b },
    ], { faults }));
  assertEquals(run({ token: "6" }, {}), [["1 token-order"], []], "the same one");
  assertEquals(run({ token: "7" }, {}), [["1 token-order"], []], "known before it was called");
  const early = { invoke: 15 };
  assertEquals(run({ token: "7" }, early), [["1 token-order"], []], "ended before it was granted");
  assertEquals(run({ token: "7" }, { ...early, until: 41 }), [[], []], "perhaps granted long ago");
  assertEquals(run({ token: "10" }, { token: "9" }), [["1 token-order"], []], "they are numbers");
  const reset = { ...flush, tokensMayRepeat: true };
  assertEquals(run({ token: "7" }, {}, [flush]), [["1 token-order"], []]);
  assertEquals(run({ token: "7" }, {}, [reset]), [[], ["1 token-order"]]);
  const other = kindsOf(judge([
    { ...first, ...left },
    { ...second, name: "m", granted: 41, token: "5", ...left },
  ]));
  assertEquals(other, [[], []], "of another name");
});

Deno.test("a write after one with a greater token is found", () => {
  const run = (wrote: number, sentUs?: number) => {
    const events = [
      ...told({ ...first, releasing: 40, released: 41, wrote: [wrote] }),
      ...told({ ...second, granted: 50, wrote: [60], ...left }),
    ].map((event) => event.atUs === wrote && sentUs ? { ...event, sentUs } : event);
    return kindsOf(judge([], { events }));
  };
  assertEquals(run(70), [["1 stale-write"], []]);
  assertEquals(run(55), [[], []]);
  assertEquals(run(70, 59), [[], []], "both were under way");
});

Deno.test("a call, a lease and a release that do not end are found, except of the dead", () => {
  const run = (story: Story, more: Partial<History> = {}) => kindsOf(judge([story], more));
  for (const story of [{ invoke: 10, queued: 12 }, first, { ...first, releasing: 30 }]) {
    assertEquals(run(story), [["1 unfinished"], []]);
    assertEquals(run(story, { faults: [kill] }), [[], []]);
    assertEquals(run(story, { faults: [{ ...kill, target: "w1" }] }), [[], []]);
    assertEquals(run(story, { faults: [{ ...kill, target: "w11" }] }), [["1 unfinished"], []]);
    assertEquals(run(story, { faults: [freeze] }), [["1 unfinished"], []]);
    const restarted = told({ worker: "w1.1", invoke: 90, failed: 95 });
    assertEquals(run({ invoke: 1, failed: 2 }, { events: [...told(story), ...restarted] })[0], []);
  }
  assertEquals(run({ ...first, lost: 100 }), [[], []], "lost is an end");
});

Deno.test("a history that cannot be is found", () => {
  const twice = told({ ...first, ...left }).flatMap((event) => [event, event]);
  const [violations] = kindsOf(judge([], { events: twice }));
  assertEquals(violations, ["1 malformed"]);
});

/** w1 is in line at 12; w2, called at 30, is served before it. */
const overtaken: Story = { invoke: 10, queued: 12, granted: 80, until: 500, token: "9", ...left };
const overtaker: Story = {
  ...{ worker: "w2.0", invoke: 30, granted: 40, until: 70, token: "8" },
  ...{ releasing: 50, released: 51 },
};

Deno.test("a grant out of order is found", () => {
  const run = (a: Partial<Story>, b: Partial<Story>, more: Partial<History> = {}) =>
    kindsOf(judge([{ ...overtaken, ...a }, { ...overtaker, ...b }], more));
  assertEquals(run({}, {}), [["1 inversion"], []]);
  assertEquals(run({}, { invoke: 11 }), [[], []], "called before it was told of its place");
  assertEquals(run({}, { steals: true }), [[], []], "did not wait for its turn");
  assertEquals(run({}, {}, { fifo: false }), [[], []]);
  assertEquals(run({}, {}, { fifo: false, strategy: "file" }), [[], []], "two processes");
  const one = run({}, { worker: "w1.0" }, { fifo: false, strategy: "file" });
  assertEquals(one, [["1 inversion"], []], "within a process");
});

Deno.test("a grant out of order is excused if the waiter was parked", () => {
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
      ...told(overtaken),
      ...told(overtaker),
      { ...event, kind: "invoke", atUs: 50 } as const,
      { ...event, kind: "failed", atUs: 51, blockedUs: 0 } as const,
    ];
    return kindsOf(judge([], { events }));
  };
  assertEquals(blocked("w1.0"), excused);
  assertEquals(blocked("w3.0"), found);
});

Deno.test("an inversion long after a fault is healed is not excused by it", () => {
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

Deno.test("a waiter that many overtake for long is found", () => {
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
  const before = { worker: "w3.0", invoke: 400_000, failed: 40e6 };
  const late = kindsOf(judge([before, ...others(300)], { fifo: false }));
  assertEquals(late, [[], []], "they were called before it");
});

Deno.test("what is left behind is found", () => {
  const residue = [{ what: "keys", count: 2 }, { what: "connections", count: 0 }];
  const { violations: [found], counts } = judge([], { residue });
  assertEquals(counts.violations, { residue: 1 });
  assertMatch(found!.message, /2 keys/);
});

Deno.test("violations in great number are all counted, and a hundred listed", () => {
  const stories = Array.from({ length: 300 }, (): Story => ({ invoke: 1 }));
  const { violations, counts } = judge(stories);
  assertEquals([violations.length, counts.violations], [100, { unfinished: 300 }]);
});

Deno.test("200,000 clean calls pass, and what is planted among them is found", () => {
  const seed = seedOf();
  const history = randomHistory(seed, 200_000, 8);
  const startMs = performance.now();
  const verdict = check(history);
  say(
    `seed ${seed}: ${verdict.counts.grants} grants in ${Math.ceil(performance.now() - startMs)} ms`,
  );
  assertEquals(kindsOf(verdict), [[], []]);
  assert(verdict.counts.calls === 200_000);
  const random = randomOf(seed);
  const releases = history.events.filter(({ kind }) => kind === "releasing");
  const { call } = releases[Math.floor(random() * releases.length / 2)]!; // others follow
  // Held on for a second: all who came in that time are two.
  const events = history.events.map((event) =>
    event.call === call && event.kind.startsWith("releas")
      ? { ...event, atUs: event.atUs + 900_000 }
      : event
  );
  const planted = check({ ...history, events });
  assert(planted.counts.violations.overlap! > 10, String(planted.counts.violations.overlap));
});
