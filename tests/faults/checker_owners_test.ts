import { assertEquals } from "@std/assert";
import {
  disposal,
  eventsOf,
  first,
  judge,
  kill,
  kindsOf,
  left,
  second,
  type Story,
} from "../../testing/faults/stories.ts";

const owner = "a1";
/** A lease of w1 under an owner id that its caller chose. */
const owned = { ...first, owner };
/** A takeover by w2 under that id. */
const taker = { ...second, owner, granted: 40, wrote: [41], ...left };

Deno.test("check() reports an overlap within an instance when a takeover does not end the earlier lease", () => {
  const run = (one: Partial<Story>, other: Partial<Story> = {}) =>
    kindsOf(judge([
      { ...owned, releasing: 90, released: 91, ...one },
      { ...owned, invoke: 30, granted: 40, token: "6", until: 300, ...left, ...other },
    ]));
  assertEquals(run({ lost: 40 }), [[], []]);
  assertEquals(run({})[0], ["1 overlap"], "it goes on");
  assertEquals(run({}, { token: "5" })[0], ["1 overlap", "1 token-order"], "one token twice");
});

Deno.test("check() excuses an overlap with a takeover by the same owner id in another instance", () => {
  const robbed = { ...owned, lost: 90, releasing: 91, released: 92 };
  const run = (by: Partial<Story>, one: Partial<Story> = {}) =>
    kindsOf(judge([{ ...robbed, ...one }, { ...taker, ...by }]));
  const [excused, found] = [[[], ["1 overlap"]], [["1 overlap"], []]];
  assertEquals(run({}), excused);
  assertEquals(
    run({ worker: "w1.0", instance: 1 }),
    excused,
    "the next lock manager of the worker",
  );
  assertEquals(run({ worker: "w1.0" }), found, "the same one");
  assertEquals(run({ owner: "a2" }), found, "another id");
  assertEquals(run({}, { owner: "a3" }), found, "an id that nobody else has");
  assertEquals(run({}, { wrote: [60] })[0], ["1 overlap", "1 stale-write"], "wrote late");
  const dead = kindsOf(judge([owned, taker], { faults: [kill] }));
  assertEquals(dead, [[], ["1 early-grant"]], "its process had died");
  const stranger = kindsOf(judge([{ ...owned, ...left }, { ...second, granted: 40, ...left }], {
    faults: [kill],
  }));
  assertEquals(stranger[0], ["1 overlap"], "a crash lets nobody else in");
});

Deno.test("check() does not excuse an overlap if the server renewed the lease after the takeover", () => {
  const run = (renewed: Story["renewed"] & object) =>
    kindsOf(judge([
      { ...owned, renewed, lost: 90, releasing: 91, released: 92 },
      { ...taker, until: 120 },
    ], { ttlUs: 80 }));
  assertEquals(run([[38, 117]]), [[], ["1 overlap"]]);
  assertEquals(run([[60, 121]]), [["1 overlap"], []]);
});

Deno.test("check() excuses an overlap with a third party only after a takeover", () => {
  const robbed = { ...owned, lost: 90, releasing: 91, released: 92 };
  const brief = { ...taker, wrote: [], releasing: 45, released: 46 };
  const heir = { ...second, worker: "w3.0", invoke: 35, granted: 47, token: "7", ...left };
  const run = (stories: Story[]) => kindsOf(judge([robbed, ...stories]));
  assertEquals(run([brief, heir]), [[], ["2 overlap"]]);
  assertEquals(run([heir]), [["1 overlap"], []]);
  assertEquals(run([{ ...brief, owner: "a2" }, heir])[0], ["2 overlap"], "of another id");
  const late = { ...brief, token: "8", invoke: 46, granted: 60, releasing: 65, released: 66 };
  assertEquals(run([heir, late])[0], ["2 overlap"], "the third party came before it");
  const aborted = { worker: "w2.0", owner, invoke: 30, failed: 46, reason: "aborted" };
  assertEquals(
    run([aborted, heir]),
    [[], ["1 overlap"]],
    "its clean-up may have released the lock",
  );
  assertEquals(run([{ ...aborted, reason: "held" }, heir])[0], ["1 overlap"], "it was refused");
  assertEquals(run([{ ...aborted, reason: "refused" }, heir])[0], ["1 overlap"], "it sent nothing");
  assertEquals(run([{ ...aborted, worker: "w1.0" }, heir])[0], ["1 overlap"], "the same instance");
});

Deno.test("check() excuses a lease under an owner id whose holder learned of it after the takeover", () => {
  const known = { ...taker, invoke: 30, granted: 40 };
  const late = { ...owned, granted: 50, lost: 60, releasing: 61, released: 62 };
  assertEquals(kindsOf(judge([known, late])), [[], ["1 overlap"]]);
  const found = kindsOf(judge([known, { ...late, invoke: 45 }]))[0];
  assertEquals(found, ["1 overlap", "1 token-order"], "asked for after the takeover was known");
});

Deno.test("check() does not compare the places of calls with a chosen owner id", () => {
  const waiter = { ...first, queued: 12, granted: 60, ...left };
  const later = { ...second, invoke: 30, granted: 40, token: "4", releasing: 50, released: 51 };
  assertEquals(kindsOf(judge([waiter, later]))[0], ["1 inversion"]);
  assertEquals(kindsOf(judge([waiter, { ...later, owner }])), [[], []]);
  assertEquals(kindsOf(judge([{ ...waiter, owner }, later])), [[], []]);
});

/** A lease that is over for its holder, because of a disposal at 50. */
const disposed = { ...first, lost: 50, reason: "disposed" };

Deno.test("check() reports an overlap with a lease that its disposal has not ended", () => {
  const run = (one: Partial<Story>) =>
    kindsOf(judge([{ ...first, ...one }, { ...second, granted: 60, ...left }]));
  assertEquals(run({ lost: 50, reason: "disposed", releasing: 59, released: 70 }), [[], []]);
  assertEquals(run({ releasing: 90, released: 91 })[0], ["1 overlap"], "its holder was not told");
});

Deno.test("check() reports a grant while the lock is kept for the holder after a disposal", () => {
  const run = (granted: number, one: Partial<Story> = {}, keptUs = 30) =>
    kindsOf(judge(
      [{ ...disposed, releasing: 95, released: 96, ...one }, { ...second, granted, ...left }],
      { keptUs },
    ));
  assertEquals(run(79), [["1 early-grant"], []]);
  assertEquals(run(80), [[], []], "its time is over");
  assertEquals(run(70, { releasing: 70 }), [[], []], "its holder has stopped");
  assertEquals(run(99, {}, 900), [[], []], "released");
  assertEquals(run(94, {}, 900), [["1 early-grant"], []]);
  assertEquals(run(100, { releasing: 300, released: 301 }, 900), [[], []], "its deadline is over");
  const killed = (until: number) =>
    kindsOf(judge([{ ...disposed, until }, { ...second, granted: 79, ...left }], {
      ...{ keptUs: 30, crashed: ["w1.0"] },
    }));
  assertEquals(killed(100), [["1 early-grant"], []], "its process has died, but not its TTL");
  assertEquals(killed(Infinity), [[], []], "a file lock ends with its process");
  assertEquals(run(79, { reason: "expired" }), [[], []], "lost for another reason");
  const took = kindsOf(judge([
    { ...disposed, owner, releasing: 95, released: 96 },
    { ...taker, worker: "w1.0", instance: 1, granted: 60 },
  ], { keptUs: 30 }));
  assertEquals(took, [[], ["1 early-grant"]], "its own id took it over");
});

Deno.test("check() reports a grant before the deadline of a lease that outlives its disposal", () => {
  const run = (granted: number, one: Partial<Story> = {}) =>
    kindsOf(judge([
      { ...disposed, owner, outlives: true, releasing: 55, released: 56, ...one },
      { ...second, granted, ...left },
    ]));
  assertEquals(run(99), [["1 early-grant"], []], "the holder's release changes nothing");
  assertEquals(run(100), [[], []]);
  assertEquals(run(60, { releasing: 45, released: 48 }), [[], []], "released before the disposal");
});

Deno.test("check() reports a disposal, and calls, that do not end in time", () => {
  const run = (
    atUs: number,
    untilUs: number | undefined,
    stories: Story[],
    crashed: string[] = [],
  ) =>
    kindsOf(judge([], {
      events: [...disposal(atUs, untilUs), ...stories.flatMap(eventsOf)],
      crashed,
    }))[0];
  assertEquals(run(50, 2e6, []), []);
  assertEquals(run(50, undefined, []), ["1 unfinished"]);
  assertEquals(run(50, 11e6, []), ["1 unfinished"]);
  assertEquals(run(50, undefined, [], ["w1.0"]), [], "it was killed");
  const call = { invoke: 10, failed: 60, reason: "disposed" };
  assertEquals(run(50, 2e6, [call]), []);
  assertEquals(run(50, 2e6, [{ ...call, failed: 11e6 }]), ["1 unfinished"]);
  assertEquals(run(50, 2e6, [{ ...call, failed: 11e6, instance: 1 }]), [], "another lock manager");
});

Deno.test("check() reports a lease that is granted by a lock manager after its disposal", () => {
  const run = (granted: number, more: Partial<Story> = {}) =>
    kindsOf(judge([], {
      events: [...disposal(50, 90), ...eventsOf({ ...first, granted, ...left, ...more })],
    }))[0];
  assertEquals(run(49), []);
  assertEquals(run(60), ["1 late-grant"]);
  assertEquals(run(60, { instance: 1 }), []);
  assertEquals(run(60, { until: 60 }), [], "it is over already");
});
