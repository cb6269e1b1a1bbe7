/**
 * Judges a recorded run: the only module that runs all checks and counts their findings.
 *
 * @module
 */
import { type Call, callsOf, type Lease } from "./calls.ts";
import { checkDisposals } from "./disposals.ts";
import { faultsOf, stealsOf } from "./excuses.ts";
import { checkSpans, checkTokens, checkWrites } from "./check_exclusion.ts";
import { newFindings, type Report, type Violation, type ViolationKind } from "./findings.ts";
import type { History, WorkerEvent } from "./history.ts";
import { checkEnds, checkOrder, checkProgress, type WaitLimits } from "./check_waiting.ts";

export type { Violation, ViolationKind } from "./findings.ts";

/** The counts of a run. */
export interface Counts {
  readonly calls: number;
  readonly grants: number;
  /** Calls that rejected. */
  readonly failed: number;
  readonly renewals: number;
  /** Leases that were lost. */
  readonly lost: number;
  /** Calls whose process died. */
  readonly crashed: number;
  readonly writes: number;
  /** Writes that the resource refused. */
  readonly refused: number;
  readonly faults: number;
  /** Violations by kind; a kind that is missing did not occur. */
  readonly violations: Readonly<Partial<Record<ViolationKind, number>>>;
  /** Findings that a fault excuses, by kind. */
  readonly excused: Readonly<Partial<Record<ViolationKind, number>>>;
}

/** The judgement. */
export interface Verdict {
  /** Whether there is no violation. */
  readonly isGood: boolean;
  /** The first hundred of each kind. */
  readonly violations: readonly Violation[];
  /** Findings that a fault excuses; the first hundred of each kind. */
  readonly excused: readonly Violation[];
  readonly counts: Counts;
}

/** A call starves if it waits for over 30 s while at least 200 later calls are served. */
const LIMITS: WaitLimits = { waitUs: 30_000_000, overtakers: 200 };

/** Judges a run. Takes O(n log n) as long as the violations are few. */
export function check(history: History, limits: WaitLimits = LIMITS): Verdict {
  const report = { violations: newFindings(), excused: newFindings() };
  const calls = callsOf(history);
  const allFaults = faultsOf(history);
  checkEnds(calls, report);
  checkDisposals(history, calls, report);
  for (const [name, ofName] of Map.groupBy(calls, ({ name }) => name)) {
    const faults = allFaults.filter(({ names }) => names?.includes(name) ?? true);
    const leases = ofName.filter(({ grantedUs }) => grantedUs < Infinity);
    const losses = {
      faults: [...stealsOf(ofName), ...faults],
      takeovers: ofName.filter(({ owner }) => owner !== null),
    };
    checkSpans(leases, losses, report);
    checkTokens(leases.filter(hasToken), losses, report);
    checkWrites(leases.filter(hasToken), report);
    checkProgress(ofName, limits, faults, history.endUs, report);
    for (const line of linesOf(ofName, history)) checkOrder(line, faults, report);
  }
  checkResidue(history, report);
  const { violations, excused } = report;
  return {
    isGood: violations.kept.length === 0,
    violations: violations.kept,
    excused: excused.kept,
    counts: count(history, calls, report),
  };
}

/** The calls that share a queue: those of all processes, those of each process, or none. */
function linesOf(calls: readonly Call[], { fifo, strategy }: History): Iterable<Call[]> {
  if (fifo) return [[...calls]];
  // A file lock orders the calls of one instance.
  return strategy === "file" ? Map.groupBy(calls, ({ instance }) => instance).values() : [];
}

function hasToken(call: Call): call is Lease {
  return call.token !== null;
}

function checkResidue({ residue, endUs }: History, { violations }: Report): void {
  for (const { what, count } of residue) {
    if (count === 0) continue;
    violations.add({ kind: "residue", atUs: endUs, message: `${count} ${what} left`, events: [] });
  }
}

function count(
  { events, faults }: History,
  calls: readonly Call[],
  { violations, excused }: Report,
): Counts {
  const kinds = new Map<WorkerEvent["kind"], number>();
  for (const { kind } of events) kinds.set(kind, (kinds.get(kind) ?? 0) + 1);
  const of = (kind: WorkerEvent["kind"]) => kinds.get(kind) ?? 0;
  return {
    calls: calls.length,
    grants: of("granted"),
    failed: of("failed"),
    renewals: of("renewed"),
    lost: of("lost"),
    crashed: calls.filter(({ isCrashed }) => isCrashed).length,
    writes: of("wrote"),
    refused: of("refused"),
    faults: faults.length,
    violations: Object.fromEntries(violations.counts),
    excused: Object.fromEntries(excused.counts),
  };
}
