/**
 * What a checker finds.
 *
 * @module
 */
import type { FaultEvent, WorkerEvent } from "./history.ts";

/** The kinds of violations. */
export type ViolationKind =
  /** Two leases of one name were provable at the same instant. */
  | "overlap"
  /** Somebody was granted the lock before the deadline of the lease before had passed. */
  | "early-grant"
  /** A token is not greater than one that was granted before. */
  | "token-order"
  /** The resource took a write after one with a greater token. */
  | "stale-write"
  /** A call of a living worker did not end. */
  | "unfinished"
  /** A waiter was kept waiting while many who came later were served. */
  | "starved"
  /** Somebody was granted the lock before one who had been in line before. */
  | "inversion"
  /** The run has left something behind. */
  | "residue"
  /** The history cannot be: the fault is the recorder's. */
  | "malformed";

/** Something that must not be. */
export interface Violation {
  readonly kind: ViolationKind;
  /** When it became visible, in µs. */
  readonly atUs: number;
  /** The lock. */
  readonly name?: string;
  readonly message: string;
  /** The events of the calls involved, by time. */
  readonly events: readonly WorkerEvent[];
  /** What excuses it. */
  readonly excuse?: FaultEvent;
}

/** How many violations of a kind are kept with their events. */
const KEPT = 100;

/** Collects violations: counts all, keeps the first of each kind. */
export interface Findings {
  add(violation: Violation): void;
  readonly kept: Violation[];
  readonly counts: Map<ViolationKind, number>;
}

/** Nothing found yet. */
export function newFindings(): Findings {
  const kept: Violation[] = [];
  const counts = new Map<ViolationKind, number>();
  return {
    kept,
    counts,
    add(violation) {
      const count = (counts.get(violation.kind) ?? 0) + 1;
      counts.set(violation.kind, count);
      if (count <= KEPT) kept.push(violation);
    },
  };
}

/** What a check writes to: violations, and those that are excused. */
export interface Report {
  readonly violations: Findings;
  readonly excused: Findings;
}

/** Files a violation where it belongs. */
export function file(report: Report, violation: Violation, excuse: FaultEvent | undefined): void {
  if (excuse) report.excused.add({ ...violation, excuse });
  else report.violations.add(violation);
}
