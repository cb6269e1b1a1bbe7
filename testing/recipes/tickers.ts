/**
 * Starts processes that each run the same job once per tick, and judges what they did.
 *
 * @module
 */
import type { LockSpec } from "../conformance/lock_spec.ts";
import { type Reporter, startReporter } from "../processes/child.ts";

/** Options of a process. */
export interface TickerOptions {
  readonly spec: LockSpec;
  readonly everyMs: number;
  readonly keepMs: number;
  /** Whether the time of the schedule is passed on. */
  readonly withTick: boolean;
  /** How wrong, in ms, the clock of the process is. */
  readonly clockMs: number;
  /** How long, in ms, a job takes at most. */
  readonly jobMs: number;
  /** How long, in ms, the event loop is blocked before a tick, at most. */
  readonly blockMs: number;
  /** The wall time, in ms, of tick 0, and the number of ticks. */
  readonly fromMs: number;
  readonly ticks: number;
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
  readonly twice: number[];
  readonly missed: number[];
  readonly outsideRule: number[];
}

/**
 * Counts the runs of each tick. The rule holds for a tick if all processes called within `keepMs`, with
 * `tick` one of them no later than that, and, without `tick`, the first one later than `keepMs` after the last call of the tick before.
 */
export function countTicks(
  processes: readonly (readonly TickReport[])[],
  { ticks, keepMs, withTick }: Pick<TickerOptions, "ticks" | "keepMs" | "withTick">,
): TickCounts {
  const counts: TickCounts = { once: 0, twice: [], missed: [], outsideRule: [] };
  const reports = processes.flat();
  const callsOf = (index: number) =>
    reports.filter((report) => report.index === index && report.what === "calls")
      .map(({ atUs }) => atUs / 1_000);
  for (let index = 0; index < ticks; index++) {
    const runs = reports.filter((report) => report.index === index && report.what === "runs");
    const calls = callsOf(index);
    const spreadMs = Math.max(...calls) - Math.min(...calls);
    const isFree = withTick || index === 0 ||
      Math.min(...calls) - Math.max(...callsOf(index - 1)) > keepMs * 1.02 + 50;
    const isInTime = reports.some((report) =>
      report.index === index && report.lateMs !== undefined && report.lateMs < keepMs - 50
    );
    if (spreadMs >= keepMs - 50 || !isFree || (withTick && !isInTime)) {
      counts.outsideRule.push(index);
    } else if (runs.length === 1) counts.once++;
    else (runs.length > 1 ? counts.twice : counts.missed).push(index);
  }
  return counts;
}
