/**
 * How the cost of a call grows with the number of waiters: requests, bytes, and time without the event loop.
 *
 * @module
 */
import { assertLessOrEqual } from "@std/assert";
import { say } from "../../testing/processes/figures.ts";
import { pause } from "../../testing/servers/wait.ts";
import { type Crowd, openCrowd, type Traffic } from "../../testing/zookeeper/crowd.ts";
import { ZooKeeperLock } from "../../zookeeper/mod.ts";

/** The soak runs the full figure. */
const IS_SOAK = Boolean(Deno.env.get("HOLDFAST_SOAK"));
const CROWDS = IS_SOAK
  ? [[1, 10], [1, 1_000], [1, 10_000], [10, 10], [10, 1_000], [10, 10_000]] as const
  : [[1, 500], [4, 200]] as const;

const IDLE_SECONDS = 3;
/** Heartbeats, and checks of the server, of all instances, that may come during one call. */
const SPARE_PACKETS = 13;

/** The name of an entry in a listing, with its length. */
const ENTRY_BYTES = 64;
/** The answers to the other requests of one call. */
const ANSWER_BYTES = 400;
/** A process lists the queue when it enters, and once more for the calls that came meanwhile. */
const LISTINGS = 3;
/** The soak judges the work in one turn of the event loop: 256 answers, or one listing. */
const GAP_MS = 500;
const GAP_PER_ENTRY_MS = 0.1;

/** The cost of each step at one size. */
interface Costs {
  readonly waiters: number;
  readonly perWaiter: Traffic;
  readonly idlePerSecond: number;
  /** One more call, in an instance in which calls wait already. */
  readonly joining: Traffic;
  /** One more call, in a new instance. */
  readonly entering: Traffic;
  /** An acquire and a release of another lock, which is free. */
  readonly free: Traffic;
  readonly perHandoff: Traffic;
  readonly handoffMs: number;
  readonly longestGapMs: number;
  readonly memoryKb: number;
}

function divided({ packets, bytes }: Traffic, count: number): Traffic {
  return { packets: packets / count, bytes: bytes / count };
}

async function measure(processes: number, waiters: number): Promise<Costs> {
  await using crowd = await openCrowd({ processes, waiters });
  const { lines } = crowd;
  const lining = await crowd.during(() => crowd.lineUp());
  const idlePerSecond = await idle(crowd) / (processes + 1);
  const memoryKb = lines.reduce((sum, { cost }) => sum + cost.memoryKb, 0);
  const others = await newcomers(crowd);
  const before = await crowd.traffic();
  const drainMs = await crowd.drain();
  const after = await crowd.traffic();
  const handing = { packets: after.packets - before.packets, bytes: after.bytes - before.bytes };
  return {
    waiters,
    perWaiter: divided(lining, waiters),
    idlePerSecond,
    ...others,
    perHandoff: divided(handing, waiters),
    handoffMs: drainMs / waiters,
    longestGapMs: Math.max(...lines.map(({ cost }) => cost.longestGapMs)),
    memoryKb: memoryKb / waiters,
  };
}

/** The requests in a second while all wait. */
async function idle({ traffic }: Crowd): Promise<number> {
  const before = await traffic();
  const startMs = performance.now();
  // No condition: counts requests of a time in which nothing happens.
  await pause(IDLE_SECONDS * 1_000);
  const seconds = (performance.now() - startMs) / 1_000;
  return ((await traffic()).packets - before.packets) / seconds;
}

/** Calls of one more instance. */
async function newcomers({ way, rootPath, during }: Crowd) {
  await using locks = new ZooKeeperLock(way, { rootPath });
  await (await locks.acquire("free")).release();
  const free = await during(async () => void await (await locks.acquire("free")).release());
  const controller = new AbortController();
  const { signal } = controller;
  const calls: Promise<unknown>[] = [];
  const one = () => during(() => void calls.push(locks.acquire("n", { signal }).catch(() => {})));
  const entering = await one();
  const joining = await one();
  controller.abort();
  await Promise.all(calls);
  return { free, entering, joining };
}

function text({ packets, bytes }: Traffic): string {
  return `${packets.toFixed(2)} packets, ${Math.round(bytes)} bytes`;
}

function report(processes: number, costs: Costs): void {
  const { waiters, perWaiter, joining, entering, free, perHandoff } = costs;
  say(`${waiters} waiters in ${processes} processes`);
  say(`  each ${text(perWaiter)}, ${costs.memoryKb.toFixed(0)} KB of memory`);
  say(`  idle ${costs.idlePerSecond.toFixed(2)} packets a second and instance`);
  say(`  one more here ${text(joining)}; in a new instance ${text(entering)}; free ${text(free)}`);
  say(`  handoff ${text(perHandoff)}, ${costs.handoffMs.toFixed(2)} ms`);
  say(`  longest gap ${costs.longestGapMs.toFixed(0)} ms`);
}

for (const [processes, waiters] of CROWDS) {
  Deno.test(`ZooKeeperLock.acquire() costs the same for each of ${waiters} waiters in ${processes} processes`, async () => {
    const costs = await measure(processes, waiters);
    report(processes, costs);
    const { perWaiter, joining, entering, free, perHandoff } = costs;
    // Each process lists the whole queue a few times. That is the only cost that grows for a waiter, with
    // the number of processes.
    assertLessOrEqual(perWaiter.packets, 3 + 10 * processes / waiters);
    assertLessOrEqual(
      perWaiter.bytes,
      ANSWER_BYTES * (1 + processes / waiters) + ENTRY_BYTES * LISTINGS * processes,
    );
    assertLessOrEqual(costs.idlePerSecond, 1);
    assertLessOrEqual(joining.packets, 2 + SPARE_PACKETS);
    assertLessOrEqual(joining.bytes, 2 * ANSWER_BYTES);
    assertLessOrEqual(free.packets, 3 + SPARE_PACKETS);
    assertLessOrEqual(free.bytes, 2 * ANSWER_BYTES);
    // A new instance has to learn which znode is directly before its own: from one listing.
    assertLessOrEqual(entering.packets, 4 + SPARE_PACKETS);
    assertLessOrEqual(entering.bytes, 2 * ANSWER_BYTES + ENTRY_BYTES * (waiters + 10));
    // The entries between two waiters of a process are read one by one: as many as there are processes,
    // on average.
    assertLessOrEqual(perHandoff.packets, 1.2 + 2 * (processes - 1) + 10 / waiters);
    assertLessOrEqual(perHandoff.bytes, ANSWER_BYTES * (1 + processes));
    if (IS_SOAK) assertLessOrEqual(costs.longestGapMs, GAP_MS + GAP_PER_ENTRY_MS * waiters);
  });
}
