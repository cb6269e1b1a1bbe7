/**
 * The findings of a checker: their kinds, and how they are collected.
 *
 * @module
 */
import type { FaultEvent, WorkerEvent } from "./history.ts";

/** The kinds of violations. */
export type ViolationKind =
  /** Two leases of one name were provable at the same instant. */
  | "overlap"
  /** The lock was granted before the deadline of the previous lease had passed. */
  | "early-grant"
  /** A token is not greater than an earlier one. */
  | "token-order"
  /** The resource accepted a write after one with a greater token. */
  | "stale-write"
  /** A call of a living worker did not end. */
  | "unfinished"
  /** A call waited for long while many later calls were served. */
  | "starved"
  /** A call was granted the lock before a waiter that was ahead of it in the queue. */
  | "inversion"
  /** A call of a lock manager was granted a lease after its disposal had begun. */
  | "late-grant"
  /** The run has left something behind. */
  | "residue"
  /** The history contradicts itself: a bug of the recorder. */
  | "malformed";

/** A broken promise, or one that a fault excuses. */
export interface Violation {
  readonly kind: ViolationKind;
  /** When it became visible, in µs. */
  readonly atUs: number;
  /** The lock. */
  readonly name?: string;
  readonly message: string;
  /** The events of the calls involved, sorted by time. */
  readonly events: readonly WorkerEvent[];
  /** The fault that excuses it. */
  readonly excuse?: FaultEvent;
}

/** How many violations of a kind are kept with their events. */
const KEPT = 100;

/** Collects violations: counts all of them and keeps the first ones of each kind. */
export interface Findings {
  add(violation: Violation): void;
  readonly kept: Violation[];
  readonly counts: Map<ViolationKind, number>;
}

/** Makes an empty collection. */
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

/** The result of the checks: violations, and those that are excused. */
export interface Report {
  readonly violations: Findings;
  readonly excused: Findings;
}

/** Adds a finding to the excused ones if there is an excuse, otherwise to the violations. */
export function file(report: Report, violation: Violation, excuse: FaultEvent | undefined): void {
  if (excuse) report.excused.add({ ...violation, excuse });
  else report.violations.add(violation);
}
