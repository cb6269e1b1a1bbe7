/**
 * Starts processes that each run the same jobs once per tick, and judges what they did.
 *
 * @module
 */
import type { LockSpec } from "../conformance/lock_spec.ts";
import { type Reporter, startReporter } from "../processes/child.ts";

/** What the ticks are like. */
export interface Ticks {
  /** The time, in ms, from a tick to the next one, which is of another job. */
  readonly everyMs: number;
  readonly keepMs: number;
  /** The number of jobs, each with its own name, that have their ticks in turn. */
  readonly jobs: number;
  /** How long, in ms, a job takes at most. */
  readonly jobMs: number;
  /** Before which part of the ticks the event loop is blocked, and for how long, in ms, at most. */
  readonly blockPart: number;
  readonly blockMs: number;
  readonly ticks: number;
  /** Whether the time of the schedule is passed on. */
  readonly withTick: boolean;
}

/** Options of a process. */
export interface TickerOptions extends Ticks {
  readonly spec: LockSpec;
  /** How wrong, in ms, the clock of the process is. */
  readonly clockMs: number;
  /** The wall time, in ms, of tick 0. */
  readonly fromMs: number;
  readonly firstTick: number;
  readonly seed: number;
}

/** A step of a tick in one process. */
export interface TickReport {
  readonly what: "calls" | "runs" | "ran" | "failed";
  readonly index: number;
  /** When, in µs on a clock that all processes share. */
  readonly atUs: number;
  /** How far, in ms, a call is from its tick, by the clock of its process. */
  readonly lateMs?: number;
  readonly message?: string;
}

/** Starts a process. */
export function startTicker(options: TickerOptions): Reporter<TickReport> {
  return startReporter(new URL("./ticker.ts", import.meta.url), options);
}

/** How many ticks ran once, twice or more, or not; and how many the rule says nothing about. */
export interface TickCounts {
  once: number;
  /** How many ticks have a winner that was killed within `keepMs`. */
  died: number;
  readonly twice: number[];
  /** Those of `twice` with more than one winner that was not killed within `keepMs`. */
  readonly twiceAlive: number[];
  readonly missed: number[];
  /** Those of `missed` that no process had just called when it was killed. */
  readonly missedAlive: number[];
  readonly outsideRule: number[];
  /** The largest time, in ms, from the first call of a tick to its last one. */
  spreadMs: number;
  readonly failed: string[];
}

interface Tick {
  /** When it was called, in ms. */
  readonly calls: number[];
  /** How many processes ran it, and how many of them were killed within `keepMs`. */
  runs: number;
  died: number;
  /** Whether a process was killed after this call, so that it may have got the lock. */
  isCut: boolean;
  isInTime: boolean;
}

/**
 * Counts the runs of each tick. The rule holds for a tick if all processes called within `keepMs`; with
 * `tick`, one of them no later than that; without it, the first one later than `keepMs` after the last call of
 * the job's tick before.
 *
 * @param processes What each process reported.
 * @param killed Those of the processes that were killed.
 */
export function countTicks(
  processes: readonly (readonly TickReport[])[],
  killed: ReadonlySet<readonly TickReport[]>,
  { ticks: count, keepMs, withTick, jobs }: Ticks,
): TickCounts {
  const ticks = Array.from({ length: count }, (): Tick => {
    return { calls: [], runs: 0, died: 0, isCut: false, isInTime: false };
  });
  const failed: string[] = [];
  for (const reports of processes) {
    note(reports, killed.has(reports), ticks, keepMs);
    failed.push(...reports.flatMap(({ message }) => message ?? []));
  }
  const counts: TickCounts = {
    ...{ once: 0, died: 0, twice: [], twiceAlive: [], missed: [], missedAlive: [] },
    ...{ outsideRule: [], spreadMs: 0, failed },
  };
  ticks.forEach(({ calls, runs, died, isCut, isInTime }, index) => {
    const firstMs = Math.min(...calls);
    const spreadMs = Math.max(...calls) - firstMs;
    const before = ticks[index - jobs]?.calls ?? [];
    const isFree = withTick || firstMs - Math.max(...before) > keepMs * 1.02 + 50;
    if (spreadMs >= keepMs - 50 || !isFree || (withTick && !isInTime)) {
      return void counts.outsideRule.push(index);
    }
    counts.spreadMs = Math.max(counts.spreadMs, spreadMs);
    if (died > 0) counts.died++;
    if (runs === 1) return void counts.once++;
    (runs > 1 ? counts.twice : counts.missed).push(index);
    if (runs > 1 && died < runs - 1) counts.twiceAlive.push(index);
    if (runs === 0 && !isCut) counts.missedAlive.push(index);
  });
  return counts;
}

/** Notes what a process reported of each tick. */
function note(
  reports: readonly TickReport[],
  isKilled: boolean,
  ticks: readonly Tick[],
  keepMs: number,
): void {
  const endUs = reports.at(-1)?.atUs ?? 0;
  const last = reports.findLast(({ what }) => what === "calls")?.index;
  for (const { what, index, atUs, lateMs = Infinity } of reports) {
    const tick = ticks[index]!;
    if (what === "calls") {
      tick.calls.push(atUs / 1_000);
      tick.isInTime ||= lateMs < keepMs - 50;
      tick.isCut ||= isKilled && last !== undefined && index >= last - 1;
    } else if (what === "runs") {
      tick.runs++;
      if (isKilled && endUs - atUs < keepMs * 1_000) tick.died++;
    }
  }
}
