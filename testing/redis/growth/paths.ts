/**
 * The paths through the scripts that meet a queue, each as the calls that take it.
 *
 * @module
 */
import { createHash } from "node:crypto";
import { stealArguments } from "../../../redis/protocol/wire.ts";
import { QUERY, RENEW, STEAL } from "../../../redis/protocol/scripts.ts";
import { askOf, type Crowd, leaveOf, ownerOf, type ScriptCall, valueOf } from "./scripted_crowd.ts";

const TTL_MS = 60_000;
/** Longer than the lease of an inbox, in ms. */
const DEAD_MS = 7_000;
/** Longer than a parked inbox and a tombstone are kept, in ms. */
const FORGOTTEN_MS = 61_000;
/** So many tickets contain some at which the scripts sweep. */
const SWEEPING = 64;

/** One path. */
export interface Path {
  readonly title: string;
  /** Whether it looks at waiters or inboxes up to the limit; others cost the same for 10 waiters. */
  readonly looksFurther?: true;
  /** Changes the crowd for this path alone. */
  prepare?(crowd: Crowd): Promise<unknown>;
  /** The calls that are measured; the dearest counts. */
  calls(crowd: Crowd): readonly ScriptCall[];
}

/** A state of the processes, and the paths through the scripts then. */
export interface Stage {
  readonly title: string;
  /** Brings the crowd from the stage before into this one. */
  enter(crowd: Crowd): Promise<unknown>;
  readonly paths: readonly Path[];
}

const [FIRST, MIDDLE, LAST] = [0, 0.5, 1];
const PLACES = [["front", FIRST], ["middle", MIDDLE], ["back", LAST]] as const;

function again(crowd: Crowd, part: number): ScriptCall {
  const { owner, inbox, ticket } = crowd.at(part);
  return askOf(owner, { inbox, ticket });
}

function release(crowd: Crowd): ScriptCall[] {
  return [leaveOf(crowd.holder)];
}

/** Strangers that ask one after the other. */
function strangers(count = 1): ScriptCall[] {
  return Array.from({ length: count }, (_, i) => {
    return askOf(ownerOf("stranger", i), { inbox: ownerOf("elsewhere") });
  });
}

function strangerTries(): ScriptCall[] {
  return [askOf(ownerOf("stranger"), { kind: "try" })];
}

const ASKS: readonly Path[] = [
  {
    title: "ask, first, of an inbox in the queue",
    calls: ({ inboxes: [inbox] }) => [
      askOf(ownerOf("stranger"), { inbox: inbox! }),
    ],
  },
  { title: "ask, first, of a new inbox", calls: () => strangers() },
  ...PLACES.map(([place, part]): Path => ({
    title: `ask, repeated, at the ${place}`,
    calls: (crowd) => [again(crowd, part)],
  })),
  {
    title: "ask of a waiter without a record, with its ticket",
    prepare: (crowd) => crowd.run(leaveOf(crowd.at(MIDDLE).owner)),
    calls: (crowd) => [again(crowd, MIDDLE)],
  },
  {
    title: "ask of the first waiter, lock free",
    prepare: (crowd) => crowd.expire(),
    calls: (crowd) => [again(crowd, FIRST)],
  },
  {
    title: "ask of the last waiter, lock free",
    prepare: (crowd) => crowd.expire(),
    calls: (crowd) => [again(crowd, LAST)],
  },
  {
    title: "ask of a granted waiter",
    prepare: (crowd) => crowd.run(leaveOf(crowd.holder)),
    calls: (crowd) => [again(crowd, FIRST)],
  },
  {
    title: "ask after a claim that lapsed",
    async prepare(crowd) {
      await crowd.run(leaveOf(crowd.holder));
      await crowd.expire();
    },
    calls: () => strangers(),
  },
  { title: "try, lock held", calls: strangerTries },
  { title: "try, lock free", prepare: (crowd) => crowd.expire(), calls: strangerTries },
  { title: "attach, owner holds", calls: ({ holder }) => [askOf(holder, { kind: "attach" })] },
  { title: "attach, refused", calls: () => [askOf(ownerOf("stranger"), { kind: "attach" })] },
];

const QUERIES: Path = {
  ...{ title: "query", looksFurther: true },
  calls: () => [{ script: QUERY, args: [64] }],
};

const COUNTS: Path = { title: "query, count only", calls: () => [{ script: QUERY, args: [0] }] };

const OTHERS: readonly Path[] = [
  { title: "renew", calls: ({ holder }) => [renewOf(holder)] },
  {
    title: "renew of a claim",
    prepare: (crowd) => crowd.run(leaveOf(crowd.holder)),
    calls: (crowd) => [renewOf(crowd.at(FIRST).owner)],
  },
  { title: "leave, handoff", calls: release },
  { title: "leave, without handoff", calls: ({ holder }) => [leaveOf(holder, { handoff: false })] },
  {
    title: "leave, handoff, with a tombstone",
    calls: ({ holder }) => [leaveOf(holder, { tombstoneMs: 30_000 })],
  },
  ...PLACES.map(([place, part]): Path => ({
    title: `leave, wait given up at the ${place}`,
    calls: (crowd) => [leaveOf(crowd.at(part).owner)],
  })),
  {
    title: "leave, wait given up, with a tombstone",
    calls: (crowd) => [leaveOf(crowd.at(MIDDLE).owner, { tombstoneMs: 30_000 })],
  },
  { title: "steal", calls: ({ holder }) => [stealOf(ownerOf("thief"), holder)] },
  QUERIES,
  COUNTS,
];

function renewOf(owner: string): ScriptCall {
  return { script: RENEW, args: [valueOf(owner), TTL_MS] };
}

function stealOf(owner: string, victim: string): ScriptCall {
  const victimDigest = createHash("sha1").update(valueOf(victim)).digest("hex");
  const terms = { value: valueOf(owner), ttlMs: TTL_MS, victimDigest };
  return { script: STEAL, args: stealArguments(terms, 0) };
}

/** The paths by which a free lock finds its next waiter. */
const SEARCHES: readonly Path[] = [
  { title: "leave, handoff", calls: release },
  {
    title: "leave, wait given up, lock free",
    prepare: (crowd) => crowd.expire(),
    calls: (crowd) => [leaveOf(crowd.at(MIDDLE).owner)],
  },
  { title: "try, lock free", prepare: (crowd) => crowd.expire(), calls: strangerTries },
  {
    title: "ask of a stranger, lock free",
    prepare: (crowd) => crowd.expire(),
    calls: () => strangers(),
  },
  {
    ...{ title: "ask of the last waiter, lock free", looksFurther: true },
    prepare: (crowd) => crowd.expire(),
    calls: (crowd) => [again(crowd, LAST)],
  },
];

const RETURNS: readonly Path[] = [
  ...PLACES.map(([place, part]): Path => ({
    title: `ask, returning, at the ${place}`,
    calls: (crowd) => [again(crowd, part)],
  })),
  ...SEARCHES,
  QUERIES,
];

const SWEEPS: readonly Path[] = [
  {
    ...{ title: `${SWEEPING} first asks`, looksFurther: true },
    calls: () => strangers(SWEEPING),
  },
  {
    ...{ title: "leave with a tombstone", looksFurther: true },
    calls: () => [leaveOf(ownerOf("stranger"), { tombstoneMs: 30_000 })],
  },
];

/** The stages, in this order. */
export const STAGES: readonly Stage[] = [
  { title: "inboxes open", enter: () => Promise.resolve(), paths: [...ASKS, ...OTHERS, ...SWEEPS] },
  {
    title: "all inboxes cut but the last",
    enter: (crowd) => crowd.listen([crowd.inboxes.at(-1)!]),
    paths: SEARCHES,
  },
  { title: "all inboxes cut", enter: (crowd) => crowd.listen([]), paths: SEARCHES },
  {
    title: "all inboxes dead",
    enter: (crowd) => Promise.resolve(crowd.setTime(DEAD_MS)),
    paths: [...SEARCHES, ...SWEEPS],
  },
  { title: "all inboxes parked", enter: park, paths: RETURNS },
  {
    title: "parked inboxes over",
    enter: (crowd) => Promise.resolve(crowd.setTime(DEAD_MS + FORGOTTEN_MS)),
    paths: SWEEPS,
  },
  { title: "tombstones of all waiters over", enter: entomb, paths: SWEEPS },
];

/** Releases the dead waiters' lock until all of their inboxes are parked. Then a stranger holds it. */
async function park(crowd: Crowd): Promise<void> {
  await crowd.runToEnd(leaveOf(crowd.holder));
  await crowd.runToEnd(askOf(crowd.holder, { inbox: "holder" }));
  await crowd.save();
}

/** All waiters leave the queue behind tombstones, which are over then. */
async function entomb(crowd: Crowd): Promise<void> {
  const leaves = crowd.waiters.map(({ owner }) => leaveOf(owner, { tombstoneMs: 30_000 }));
  crowd.setTime(0);
  await crowd.runAll(leaves);
  await crowd.save();
  crowd.setTime(FORGOTTEN_MS);
}
