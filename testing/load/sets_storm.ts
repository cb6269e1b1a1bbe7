/**
 * Processes that acquire overlapping sets while others are killed and connections are cut: none deadlocks,
 * and no name stays taken.
 *
 * @module
 */
import { assert, assertEquals } from "@std/assert";
import process from "node:process";
import { acquireAll } from "../../mod.ts";
import { within } from "../conformance/bounds.ts";
import type { LockSpec } from "../conformance/lock_spec.ts";
import { openLock } from "../conformance/open_lock.ts";
import type { Reporter } from "../processes/child.ts";
import { say } from "../processes/figures.ts";
import { randomOf, seedOf } from "../processes/random.ts";
import { pause, waitUntil } from "../servers/wait.ts";
import { LONG_BOUND_MS } from "../time.ts";
import { type SetReport, startSets } from "./sets.ts";

const SOAK = Boolean(process.env["HOLDFAST_SOAK"]);
const STORM_MS = SOAK ? 600_000 : 1_500;
const PROCESSES = SOAK ? 8 : 3;
/** The longest time, in ms, between two faults. */
const MAX_CALM_MS = SOAK ? 600 : 375;
const LANES = 2;
const NAMES = ["a", "b", "c", "d", "e", "f", "g", "h"];
/** So many sets each process must get after the storm. One call in dozens fails while it holds a lock. */
const LATER_SETS = SOAK ? 40 : 10;

/** What the storm hits. */
export interface SetsStorm {
  /** Where the processes connect. */
  readonly spec: LockSpec;
  /** The same place without faults. */
  readonly calmSpec: LockSpec;
  /** Cuts all connections of the processes; left out if there are none. */
  cut?(): void;
  /** How long it lasts, in ms; ten minutes in a soak by default. */
  readonly stormMs?: number;
  /** How long, in ms, a call may take when nobody is deadlocked. */
  readonly boundMs?: number;
}

const heldBy = ({ reports }: Reporter<SetReport>) =>
  reports.filter((report) => report === "held").length;

/** Runs the storm, and checks what is left. */
export async function setsStorm(
  { spec, calmSpec, cut, stormMs = STORM_MS, boundMs = LONG_BOUND_MS }: SetsStorm,
): Promise<void> {
  const seed = seedOf();
  const random = randomOf(seed);
  let started = 0;
  const start = () => startSets({ spec, names: NAMES, lanes: LANES, seed: seed + ++started });
  const running = Array.from({ length: PROCESSES }, start);
  const counts = new Map<SetReport, number>();
  const count = ({ reports }: Reporter<SetReport>) => {
    for (const report of reports) counts.set(report, (counts.get(report) ?? 0) + 1);
  };
  try {
    await waitUntil(
      "all have begun",
      () => running.every((each) => heldBy(each) > 0),
      boundMs,
    );
    let [kills, cuts] = [0, 0];
    for (const endMs = performance.now() + stormMs; performance.now() < endMs;) {
      await lasts(random() * MAX_CALM_MS);
      if (cut !== undefined && random() < 0.5) {
        cut();
        cuts++;
        continue;
      }
      const index = Math.floor(random() * running.length);
      running[index]!.kill("SIGKILL");
      await running[index]!.ended;
      await running[index]![Symbol.asyncDispose]();
      count(running[index]!);
      running[index] = start();
      kills++;
    }
    const before = running.map(heldBy);
    await waitUntil("nobody is deadlocked: each process gets more sets", () => {
      return running.every((each, i) => heldBy(each) >= before[i]! + LATER_SETS);
    }, boundMs);
    // Each acquires all names before it ends.
    const ends = Promise.all(running.map((each) => each.finish()));
    const codes = await within("no process keeps a name", ends, boundMs);
    assertEquals(codes, running.map(() => 0), `seed ${seed}`);
    running.forEach(count);
    const text = [...counts].map(([report, count]) => `${report} ${count}`).join(", ");
    say(`seed ${seed}: ${kills} kills, ${cuts} cuts; ${text}`);
    assert(kills + cuts > 0);
  } finally {
    for (const each of running) await each[Symbol.asyncDispose]();
  }
  await using client = await openLock(calmSpec);
  const all = acquireAll(client.lock, NAMES);
  const set = await within("no name stays taken", all, boundMs);
  assertEquals(await set.release(), true);
}

// Paces a workload: the time between two faults.
function lasts(ms: number): Promise<void> {
  return pause(ms);
}
