/**
 * Histories in short notation, for the tests of the checker.
 *
 * @module
 */
import { check, type Verdict } from "./checker.ts";
import type { FaultEvent, History, WorkerEvent } from "./history.ts";

/** One call in short notation: the time of each event, in µs. */
export interface Story extends Partial<Omit<WorkerEvent, "kind">> {
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

/** The events of a call. */
export function eventsOf(story: Story): WorkerEvent[] {
  const call = `c${++calls}`;
  const { worker = "w1.0", name = "n", token, steals, owner, outlives, instance = 0 } = story;
  const { mode, limit } = story;
  const place = { worker, call, name, instance };
  const of = (kind: WorkerEvent["kind"], atUs?: number, more: Partial<WorkerEvent> = {}) =>
    atUs === undefined ? [] : [{ atUs, ...place, kind, ...more }];
  const reason = story.reason === undefined ? {} : { reason: story.reason };
  const fence = token === undefined ? {} : { token };
  const until = story.until === undefined ? {} : { deadlineUs: story.until };
  return [
    ...of("invoke", story.invoke, {
      ...{ ...steals && { steals }, ...owner && { owner } },
      ...{ ...mode && { mode }, ...limit && { limit } },
    }),
    ...of("queued", story.queued),
    ...of("granted", story.granted, { ...fence, ...until, ...outlives && { outlives } }),
    ...(story.renewed ?? []).flatMap(([atUs, deadlineUs]) => of("renewed", atUs, { deadlineUs })),
    ...(story.wrote ?? []).flatMap((atUs) => of("wrote", atUs, fence)),
    ...(story.refused ?? []).flatMap((atUs) => of("refused", atUs, fence)),
    ...of("lost", story.lost, reason),
    ...of("releasing", story.releasing),
    ...of("released", story.released),
    ...of("failed", story.failed, reason),
  ];
}

/** The events of a disposal of the first lock manager of w1. */
export function disposal(atUs: number, untilUs?: number): WorkerEvent[] {
  const place = { worker: "w1.0", call: `c${++calls}`, name: "" };
  const end = untilUs === undefined ? [] : [{ ...place, kind: "disposed", atUs: untilUs } as const];
  return [{ ...place, kind: "disposing", atUs }, ...end];
}

/** Judges a run of some calls. */
export function judge(stories: readonly Story[], more: Partial<History> = {}): Verdict {
  return check({
    ...{ seed: 1, strategy: "redis", fifo: true, startUs: 0, endUs: 1e9, faults: [], residue: [] },
    events: stories.flatMap(eventsOf),
    ...more,
  });
}

/** The counts of violations and of excused findings, each as `2 overlap`. */
export function kindsOf({ counts }: Verdict): [violations: string[], excused: string[]] {
  const list = (of: Partial<Record<string, number>>) =>
    Object.entries(of).map(([kind, count]) => `${count} ${kind}`);
  return [list(counts.violations), list(counts.excused)];
}

/** The server loses all data, at 25. */
export const flush: FaultEvent = {
  atUs: 25,
  fault: "flushall",
  target: "redis",
  destructive: true,
};
/** w1 is suspended from 25 to 60. */
export const freeze: FaultEvent = {
  ...{ atUs: 25, untilUs: 60, fault: "freeze", target: "w1", destructive: false },
};
/** w1 is killed, at 31. */
export const kill: FaultEvent = { atUs: 31, fault: "kill", target: "w1.0", destructive: false };

/** A lease of w1 that is provable until 100. */
export const first = { invoke: 10, granted: 20, until: 100, token: "5" };
/** A call of w2; the story adds the time of its grant. */
export const second = { worker: "w2.0", invoke: 30, until: 500, token: "6" };
/** A release at 400. */
export const left = { releasing: 400, released: 401 };
