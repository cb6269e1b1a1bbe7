/**
 * Leaders in several processes, under kills, freezes and partitions.
 *
 * @module
 */
// Paces a workload: a fault comes at any moment of a term.
import { assert, assertEquals } from "@std/assert";
import type { LockSpec } from "../conformance/lock_spec.ts";
import type { Reporter } from "../processes/child.ts";
import { median, say } from "../processes/figures.ts";
import { randomFrom } from "../processes/random.ts";
import { type FaultProxy, type ProxyTarget, startProxy } from "../servers/proxy.ts";
import { pause, waitUntil } from "../servers/wait.ts";
import {
  type CandidateReport,
  gapsMs,
  lossesOf,
  outOfOrder,
  overlaps,
  startCandidate,
  termsOf,
} from "./candidates.ts";

const FAULTS = ["freeze", "partition", "kill"] as const;
const DIRECTIONS = ["both", "to-server", "to-client"] as const;
/** A part of the faults hits a process that waits. */
const WAITING_PART = 0.2;

/** Where the leaders stand, and for how long. */
export interface LeadersOptions {
  readonly server: ProxyTarget;
  /** How a process reaches the server through its proxy. */
  spec(proxy: FaultProxy): LockSpec;
  readonly candidates: number;
  /** For how long, in ms, faults are added at random after the first one of each kind. */
  readonly lastsMs: number;
  /** The longest pause, in ms, before a fault. */
  readonly pauseMs: number;
}

interface Candidate {
  readonly proxy: FaultProxy;
  readonly process: Reporter<CandidateReport>;
}

/** Runs the processes, and fails if two of them led at once, or one was told in a wrong order. */
export async function checkLeaders(options: LeadersOptions): Promise<void> {
  const random = randomFrom("leaders");
  const pick = <T>(items: readonly T[]) => items[Math.floor(random() * items.length)]!;
  await using stack = new AsyncDisposableStack();
  const start = (proxy: FaultProxy): Candidate => {
    return { proxy, process: stack.use(startCandidate({ spec: options.spec(proxy) })) };
  };
  const all = Array.from(
    { length: options.candidates },
    () => start(stack.use(startProxy(options.server))),
  );
  let alive = [...all];
  const leader = () => alive.find(({ process }) => process.reports.at(-1)?.what === "claims");
  const startMs = performance.now();
  const counts = { freeze: 0, partition: 0, kill: 0 };
  let faults = 0;
  while (faults < FAULTS.length || performance.now() < startMs + options.lastsMs) {
    await waitUntil("a process leads", () => leader() !== undefined);
    await pause(random() * options.pauseMs);
    const leading = leader();
    if (leading === undefined) continue;
    const isSpared = faults >= FAULTS.length && random() < WAITING_PART;
    const victim = isSpared ? pick(alive) : leading;
    const fault = FAULTS[faults++] ?? pick(FAULTS);
    counts[fault]++;
    if (fault === "kill") {
      victim.process.kill("SIGKILL");
      const fresh = start(victim.proxy);
      all.push(fresh);
      alive = [...alive.filter((each) => each !== victim), fresh];
    } else if (fault === "freeze") {
      await freeze(victim, () => alive.find((each) => each !== victim && leads(each)));
    } else {
      const direction = faults <= FAULTS.length ? "both" : pick(DIRECTIONS);
      await partition(victim, direction, leader);
    }
  }
  await waitUntil("a process leads", () => leader() !== undefined);
  const ranMs = performance.now() - startMs;
  for (const { process } of alive) assertEquals(await process.finish(), 0);
  judge(all.map(({ process }) => process.reports), counts, ranMs);
}

function leads({ process }: Candidate): boolean {
  return process.reports.at(-1)?.what === "claims";
}

async function freeze({ process }: Candidate, other: () => Candidate | undefined): Promise<void> {
  process.kill("SIGSTOP");
  await waitUntil("another process leads", () => other() !== undefined);
  const { length } = process.reports;
  process.kill("SIGCONT");
  // It may have waited before, and it may lead again by then.
  const waits = () =>
    process.reports.at(-1)?.what === "waiting" ||
    process.reports.slice(length).some(({ what }) => what === "waiting");
  await waitUntil("it waits again", waits);
}

async function partition(
  victim: Candidate,
  direction: typeof DIRECTIONS[number],
  leader: () => Candidate | undefined,
): Promise<void> {
  victim.proxy.blackHole(direction);
  await waitUntil("another process leads, and it knows", () => {
    const leading = leader();
    return leading !== undefined && leading !== victim && !leads(victim);
  });
  victim.proxy.heal();
}

function judge(
  histories: readonly (readonly CandidateReport[])[],
  counts: Readonly<Record<string, number>>,
  ranMs: number,
): void {
  const terms = termsOf(histories);
  const gaps = gapsMs(terms);
  const { before, later, unseen } = lossesOf(terms);
  const withoutMs = gaps.reduce((sum, gap) => sum + gap, 0);
  const faults = Object.entries(counts).map(([fault, count]) => `${count} × ${fault}`);
  say(
    `lead() for ${Math.round(ranMs / 1_000)} s, ${faults.join(", ")}: ${terms.length} terms, ` +
      `${overlaps(terms).length} overlaps; losses seen before the next term: ${before}, later, ` +
      `since the process did not run: ${
        later - unseen.length
      }, later: ${unseen.length}; without a ` +
      `leader ${Math.round(withoutMs)} ms, ${
        (100 * withoutMs / ranMs).toFixed(1)
      } % of the time, ` +
      `median ${median(gaps)} ms, at most ${Math.round(Math.max(...gaps))} ms`,
  );
  assert(terms.length >= FAULTS.length, "each fault must end a term");
  assertEquals(overlaps(terms), []);
  assertEquals(unseen, []);
  assertEquals(histories.flatMap(outOfOrder), []);
}
