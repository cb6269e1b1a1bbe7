/**
 * Measures cycles of two versions in rounds that are interleaved.
 *
 * @module
 */
import type { CycleCost, Workload } from "./jobs.ts";
import type { VersionProcess } from "./version_process.ts";

/** A service runs code that is compiled already; V8 needs this long until allocations settle. */
const WARM_UP_ROUNDS = 10;

/** The two versions. */
export interface Pair<T> {
  readonly old: T;
  readonly new: T;
}

/** The kinds of cycles that are measured. */
export const WORKLOADS: readonly Workload[] = [
  { title: "uncontended, 1 lane", lanes: 1, isContended: false, steps: 2_000 },
  { title: "uncontended, 8 lanes", lanes: 8, isContended: false, steps: 4_000 },
  { title: "uncontended, 64 lanes", lanes: 64, isContended: false, steps: 6_400 },
  { title: "handoff, 2 waiters", lanes: 2, isContended: true, steps: 2_000 },
  { title: "handoff, 100 waiters", lanes: 100, isContended: true, steps: 4_000 },
];

/** The cost of one cycle in the version's process, and in the server. */
export interface RoundCost extends CycleCost {
  /** The time of its scripts, in µs. */
  readonly serverUs: number;
}

/**
 * Measures rounds after a warm-up. The version that goes first in one round goes last in the next.
 *
 * @param scriptUs Reads the time of all scripts that the server has run so far, in µs.
 */
export async function measureRounds(
  versions: Pair<VersionProcess>,
  workload: Workload,
  rounds: number,
  scriptUs: () => Promise<number>,
): Promise<Pair<RoundCost>[]> {
  const costs: Pair<RoundCost>[] = [];
  const measure = async (version: VersionProcess): Promise<RoundCost> => {
    const beforeUs = await scriptUs();
    const cost = await version.ask("cycles", { workload });
    return { ...cost, serverUs: (await scriptUs() - beforeUs) / workload.steps };
  };
  for (let round = -WARM_UP_ROUNDS; round < rounds; round++) {
    const cost = await measureRound(versions, measure, round % 2 === 0);
    if (round >= 0) costs.push(cost);
  }
  return costs;
}

async function measureRound(
  versions: Pair<VersionProcess>,
  measure: (version: VersionProcess) => Promise<RoundCost>,
  oldFirst: boolean,
): Promise<Pair<RoundCost>> {
  if (oldFirst) {
    const old = await measure(versions.old);
    return { old, new: await measure(versions.new) };
  }
  const newer = await measure(versions.new);
  return { old: await measure(versions.old), new: newer };
}
