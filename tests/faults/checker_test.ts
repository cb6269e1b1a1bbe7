import { assert, assertEquals, assertMatch } from "@std/assert";
import { say } from "../../testing/processes/figures.ts";
import { randomOf, seedOf } from "../../testing/processes/random.ts";
import { check } from "../../testing/faults/checker.ts";
import type { FaultEvent, History } from "../../testing/faults/history.ts";
import { randomHistory } from "../../testing/faults/random_history.ts";
import {
  eventsOf,
  first,
  flush,
  judge,
  kill,
  kindsOf,
  left,
  second,
  type Story,
} from "../../testing/faults/stories.ts";

Deno.test("check() finds nothing in a clean history", () => {
  const verdict = judge([
    { ...first, wrote: [21], releasing: 40, released: 60 },
    { ...second, granted: 41, wrote: [50], ...left },
    { invoke: 31, queued: 32, failed: 50, reason: "aborted" },
    { name: "other", invoke: 20, granted: 30, token: "1", ...left }, // a lease without a TTL
  ]);
  assertEquals(kindsOf(verdict), [[], []]);
  assert(verdict.isGood);
  const { calls, grants, failed, writes } = verdict.counts;
  assertEquals([calls, grants, failed, writes], [4, 3, 1, 2]);
});

Deno.test("check() reports overlapping leases, each until its deadline, loss or release", () => {
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

Deno.test("check() names the leases of an overlap and lists their events", () => {
  const { violations: [overlap] } = judge([
    { ...first, ...left },
    { ...second, granted: 90, ...left },
  ]);
  assertEquals(overlap?.message, "w2.0's lease 6 overlaps w1.0's lease 5 for 10 µs");
  assertEquals(overlap?.events.map(({ atUs }) => atUs), [10, 20, 30, 90, 400, 400, 401, 401]);
});

Deno.test("check() reports an overlap with each of several leases", () => {
  const third = { worker: "w3.0", invoke: 35, granted: 60, until: 500, token: "7", ...left };
  const verdict = judge([{ ...first, ...left }, { ...second, granted: 50, ...left }, third]);
  assertEquals(kindsOf(verdict), [["3 overlap"], []]);
});

Deno.test("check() excuses an overlap when the server lost data between the grants and refused late writes", () => {
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
  assertEquals(run({}, { ...flush, names: ["m", "n"] }), [[], ["1 overlap"]]);
  assertEquals(run({}, { ...flush, names: ["m"] }), [["1 overlap"], []], "it hit other locks");
  assertEquals(run({ wrote: [55] }, flush)[0], ["1 overlap", "1 stale-write"]);
});

Deno.test("check() does not excuse an overlap when the server promised both leases after its data loss", () => {
  const run = (renewed: Story["renewed"] & object, story: Partial<Story> = {}) =>
    kindsOf(judge(
      [{ ...first, renewed, ...left }, { ...second, granted: 40, until: 120, ...left, ...story }],
      { faults: [flush], ttlUs: 80 },
    ));
  const [found, excused] = [[["1 overlap"], []], [[], ["1 overlap"]]];
  assertEquals(run([]), excused);
  assertEquals(run([[35, 104]]), excused, "asked for before the loss");
  assertEquals(run([[35, 112]]), found, "renewed after the loss, before the other grant");
  assertEquals(run([[50, 128]]), found, "and after that");
  assertEquals(run([[50, 128]], { releasing: 45, released: 46 }), excused, "the other was over");
  const robbed = { ...first, renewed: [[60, 135]], ...left } as const;
  const thief = { ...second, steals: true, granted: 40, until: 120, ...left };
  assertEquals(kindsOf(judge([robbed, thief], { ttlUs: 80 })), found, "nor by a theft");
});

Deno.test("check() excuses a lease that was lost before its holder learned of the grant", () => {
  const next = { ...first, invoke: 18, token: "7", wrote: [21], ...left };
  const run = (fault: FaultEvent, story: Partial<Story> = {}) =>
    kindsOf(judge([next, { ...second, invoke: 12, granted: 50, token: "6", ...left, ...story }], {
      faults: [fault],
    }))[0];
  const lost = { ...flush, atUs: 15 };
  assertEquals(run(lost, { refused: [51] }), []);
  assertEquals(run({ ...lost, destructive: false }), ["1 overlap"]);
  assertEquals(run({ ...lost, atUs: 11 }), ["1 overlap"], "before it was asked for");
  assertEquals(run(lost, { wrote: [51] }), ["1 overlap", "1 stale-write"]);
});

Deno.test("check() excuses an overlap with a steal", () => {
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

Deno.test("check() reports a grant before the deadline of a dead worker's lease", () => {
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

Deno.test("check() reports an early grant even when the granted lease has already expired", () => {
  const late = { ...second, granted: 60, until: 60, ...left };
  assertEquals(kindsOf(judge([{ ...first, ...left }, late])), [["1 early-grant"], []]);
  const old = { ...late, invoke: 15, token: "4" };
  assertEquals(kindsOf(judge([{ ...first, ...left }, old])), [[], []], "it was over before");
  const [violations] = kindsOf(judge([{ ...first, ...left }, { ...old, invoke: 21 }]));
  assertEquals(violations, ["1 early-grant", "1 token-order"], "called when the other was known");
  assertEquals(kindsOf(judge([{ ...first, ...left }, { ...old, until: 61 }])), [
    ["1 overlap"],
    [],
  ]);
});

Deno.test("check() reports tokens that do not grow when the events prove the order of the grants", () => {
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
  const between = [{ ...flush, atUs: 18 }];
  assertEquals(
    run({ token: "7" }, early, between),
    [[], ["1 token-order"]],
    "its grant became known late",
  );
  assertEquals(run({ token: "7" }, { invoke: 21 }, between), [["1 token-order"], []]);
  assertEquals(run({ token: "7", steals: true }, early), [[], ["1 token-order"]], "stolen");
  const other = kindsOf(judge([
    { ...first, ...left },
    { ...second, name: "m", granted: 41, token: "5", ...left },
  ]));
  assertEquals(other, [[], []], "of another name");
});

Deno.test("check() reports a write after one with a greater token", () => {
  const run = (wrote: number, sentUs?: number) => {
    const events = [
      ...eventsOf({ ...first, releasing: 40, released: 41, wrote: [wrote] }),
      ...eventsOf({ ...second, granted: 50, wrote: [60], ...left }),
    ].map((event) => event.atUs === wrote && sentUs ? { ...event, sentUs } : event);
    return kindsOf(judge([], { events }));
  };
  assertEquals(run(70), [["1 stale-write"], []]);
  assertEquals(run(55), [[], []]);
  assertEquals(run(70, 59), [[], []], "both were under way");
});

Deno.test("check() reports residue", () => {
  const residue = [{ what: "keys", count: 2 }, { what: "connections", count: 0 }];
  const { violations: [found], counts } = judge([], { residue });
  assertEquals(counts.violations, { residue: 1 });
  assertMatch(found!.message, /2 keys/);
});

Deno.test("check() counts all violations and lists the first hundred of each kind", () => {
  const stories = Array.from({ length: 300 }, (): Story => ({ invoke: 1 }));
  const { violations, counts } = judge(stories);
  assertEquals([violations.length, counts.violations], [100, { unfinished: 300 }]);
});

/** The soak runs the full figure. */
const CALLS = Deno.env.get("HOLDFAST_SOAK") ? 200_000 : 20_000;

Deno.test("check() passes many clean calls and finds a planted overlap among them", () => {
  const seed = seedOf();
  const history = randomHistory(seed, CALLS, 8);
  const startMs = performance.now();
  const verdict = check(history);
  say(
    `seed ${seed}: ${verdict.counts.grants} grants in ${Math.ceil(performance.now() - startMs)} ms`,
  );
  assertEquals(kindsOf(verdict), [[], []]);
  assert(verdict.counts.calls === CALLS);
  const random = randomOf(seed);
  const releases = history.events.filter(({ kind }) => kind === "releasing");
  const { call } = releases[Math.floor(random() * releases.length / 2)]!; // a holder with later grants
  // One holder keeps the lock for 0.9 s: all grants in that time overlap with it.
  const events = history.events.map((event) =>
    event.call === call && event.kind.startsWith("releas")
      ? { ...event, atUs: event.atUs + 900_000 }
      : event
  );
  const planted = check({ ...history, events });
  assert(planted.counts.violations.overlap! > 10, String(planted.counts.violations.overlap));
});

Deno.test("check() lets shared leases overlap, but not with an exclusive one, nor more than the limit", () => {
  const shared = (worker: string, granted: number, token: string, more: Partial<Story> = {}) => {
    const mode = "shared" as const;
    return { worker, mode, invoke: granted - 1, granted, until: 500, token, ...left, ...more };
  };
  const readers = [shared("w1.0", 20, "5"), shared("w2.0", 30, "5"), shared("w3.0", 40, "6")];
  assertEquals(kindsOf(judge(readers)), [[], []], "two of them have the same token");
  const writer = { ...second, worker: "w4.0", granted: 50, token: "7", ...left };
  assertEquals(kindsOf(judge([...readers, writer])), [["3 overlap"], []]);
  const early = { ...first, invoke: 5, granted: 10, token: "4", releasing: 25, released: 26 };
  assertEquals(kindsOf(judge([early, ...readers])), [["1 overlap"], []]);
  const same = { ...writer, invoke: 402, granted: 410, token: "6", until: 600, releasing: 500 };
  assertEquals(kindsOf(judge([...readers, { ...same, released: 501 }])), [["1 token-order"], []]);
  const limited = (limit: number) => readers.map((reader) => ({ ...reader, limit }));
  assertEquals(kindsOf(judge(limited(3))), [[], []]);
  assertEquals(kindsOf(judge(limited(2))), [["1 overlap"], []]);
  assertEquals(kindsOf(judge(limited(1))), [["2 overlap"], []]);
});

Deno.test("check() reports a reader that passes a waiting writer, and a writer that passes a reader", () => {
  const mode = "shared" as const;
  const held = { ...first, mode, worker: "w3.0", releasing: 55, released: 56 };
  const writer = { ...second, queued: 31, granted: 60, token: "8", ...left };
  const reader = {
    mode,
    invoke: 40,
    granted: 50,
    until: 500,
    token: "7",
    releasing: 55,
    released: 56,
  };
  assertEquals(kindsOf(judge([held, writer, { ...reader, invoke: 20, token: "6" }])), [[], []]);
  assertEquals(kindsOf(judge([held, writer, reader])), [["1 inversion"], []]);
  const waiting = { ...reader, invoke: 30, queued: 31, granted: 70, releasing: 80, released: 81 };
  const thief = { ...first, worker: "w2.0", invoke: 40, granted: 60, until: 500, token: "6" };
  const passed = [waiting, { ...thief, releasing: 65, released: 66 }];
  assertEquals(kindsOf(judge(passed)), [["1 inversion"], []]);
  const together = [waiting, { ...reader, invoke: 40, granted: 60, releasing: 80, released: 81 }];
  assertEquals(kindsOf(judge(together)), [[], []], "readers learn of it in any order");
});
