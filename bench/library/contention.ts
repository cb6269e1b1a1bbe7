/**
 * Figures of contention for one lock, from the grants of all processes.
 *
 * @module
 */
import { mean, quantile } from "./statistics.ts";

/** The grants of one process; times in µs of a clock that all processes share. */
interface GrantColumns {
  readonly calledUs: readonly number[];
  readonly grantedUs: readonly number[];
  readonly releasedUs: readonly number[];
  readonly waiter: readonly number[];
}

/** One grant. */
export interface Grant {
  readonly calledUs: number;
  readonly grantedUs: number;
  /** When the holder began to release the lock. */
  readonly releasedUs: number;
  /** The waiter, among those of all processes. */
  readonly waiter: string;
  /** Whether it is the first grant of its waiter: all first calls are made at once. */
  readonly isFirst: boolean;
}

/** Calls that were made closer together than this may be served in any order: they race to the server. */
const RACE_US = 5_000;

/** The grants of all processes, in the order of time. */
export function gather(processes: readonly GrantColumns[]): Grant[] {
  return processes.flatMap(grantsOf).sort((a, b) => a.grantedUs - b.grantedUs);
}

function grantsOf(columns: GrantColumns, process: number): Grant[] {
  const seen = new Set<number>();
  return columns.waiter.map((waiter, place) => {
    const isFirst = !seen.has(waiter);
    seen.add(waiter);
    return {
      calledUs: columns.calledUs[place]!,
      grantedUs: columns.grantedUs[place]!,
      releasedUs: columns.releasedUs[place]!,
      waiter: `${process}.${waiter}`,
      isFirst,
    };
  });
}

/** The figures that waiters observe between two moments. */
export interface Contention {
  readonly grantsPerSecond: number;
  /** The mean time from a release to the next grant, in µs. */
  readonly handoffUs: number;
  /** The part of the time in which a waiter held the lock. */
  readonly shareHeld: number;
  /** The part of the grants, except the first ones, that came after the grant of a later call. */
  readonly inversions: number;
  /** The grants of the waiter with the fewest, as a part of an equal share. */
  readonly leastServed: number;
  readonly waitP50Ms: number;
  readonly waitP99Ms: number;
}

/** Computes the figures of the grants between two moments, among a number of waiters. */
export function contentionOf(
  grants: readonly Grant[],
  waiters: number,
  [fromUs, toUs]: readonly [number, number],
): Contention {
  const seen = grants.filter(({ grantedUs }) => grantedUs >= fromUs && grantedUs <= toUs);
  const waitsMs = seen.map(({ calledUs, grantedUs }) => (grantedUs - calledUs) / 1_000);
  const heldUs = seen.reduce((sum, { grantedUs, releasedUs }) => sum + releasedUs - grantedUs, 0);
  return {
    grantsPerSecond: (seen.length / (toUs - fromUs)) * 1e6,
    handoffUs: mean(
      seen.slice(1).map(({ grantedUs }, index) => grantedUs - seen[index]!.releasedUs),
    ),
    shareHeld: heldUs / (toUs - fromUs),
    inversions: inversionsIn(seen.filter(({ isFirst }) => !isFirst)),
    leastServed: leastServed(seen, waiters),
    waitP50Ms: quantile(waitsMs, 0.5),
    waitP99Ms: quantile(waitsMs, 0.99),
  };
}

function inversionsIn(grants: readonly Grant[]): number {
  let latestUs = -Infinity;
  let count = 0;
  for (const { calledUs } of grants) {
    if (latestUs > calledUs + RACE_US) count++;
    latestUs = Math.max(latestUs, calledUs);
  }
  return count / grants.length;
}

function leastServed(grants: readonly Grant[], waiters: number): number {
  const counts = Map.groupBy(grants, ({ waiter }) => waiter);
  if (counts.size < waiters) return 0;
  return Math.min(...Array.from(counts.values(), ({ length }) => length)) /
    (grants.length / waiters);
}
