/**
 * Starts processes that want to lead, and judges when they led.
 *
 * @module
 */
import type { LockSpec } from "../conformance/lock_spec.ts";
import { type Reporter, startReporter } from "../processes/child.ts";

/** Options of a process. */
export interface CandidateOptions {
  readonly spec: LockSpec;
}

/** What a process reports. */
export interface CandidateReport {
  readonly what: "waiting" | "leading" | "claims" | "lost";
  /** When, in µs on a clock that all processes share. */
  readonly atUs: number;
  /** The fencing token of its last lease. */
  readonly token: string;
  /** Until when the lease is valid, as its holder believes. */
  readonly untilUs?: number;
  /** Why it was lost. */
  readonly reason?: string;
}

/** Starts a process. It stops to lead when its input ends. */
export function startCandidate(options: CandidateOptions): Reporter<CandidateReport> {
  return startReporter(new URL("./candidate.ts", import.meta.url), options);
}

/** One time that a process led. */
export interface Term {
  readonly token: bigint;
  readonly fromUs: number;
  /** Until when its holder claimed to lead, at most: it may have been told of the loss before. */
  readonly toUs: number;
  /** Why it ended, if its process told so. */
  readonly reason: string | undefined;
}

/** All terms, in the order of their tokens. */
export function termsOf(processes: readonly (readonly CandidateReport[])[]): Term[] {
  const terms = processes.flatMap((reports) =>
    reports.filter(({ what }) => what === "leading").map(({ token, atUs }): Term => {
      const ofTerm = reports.filter((report) => report.token === token);
      const lost = ofTerm.find(({ what }) => what === "lost");
      const claims = ofTerm.map(({ untilUs = 0 }) => untilUs);
      const toUs = Math.min(Math.max(atUs, ...claims), lost?.atUs ?? Infinity);
      return { token: BigInt(token), fromUs: atUs, toUs, reason: lost?.reason };
    })
  );
  return terms.sort((a, b) => a.token < b.token ? -1 : 1);
}

/** The terms that began before the last one was over, in words. */
export function overlaps(terms: readonly Term[]): string[] {
  return terms.slice(1).flatMap((term, index) => {
    const before = terms[index]!;
    if (term.fromUs >= before.toUs) return [];
    return [
      `${term.token} began ${before.toUs - term.fromUs} µs before the end of ${before.token}`,
    ];
  });
}

/** How long, in ms, nobody led between the first term and the last one. */
export function leaderlessMs(terms: readonly Term[]): number {
  return terms.slice(1).reduce(
    (sum, { fromUs }, index) => sum + Math.max(0, fromUs - terms[index]!.toUs) / 1_000,
    0,
  );
}

/** Where a process was told something out of order: leading, lost, waiting, leading, … */
export function outOfOrder(reports: readonly CandidateReport[]): string[] {
  const states = reports.filter(({ what }) => what !== "claims").map(({ what }) => what);
  const next = { leading: "lost", lost: "waiting", waiting: "leading", claims: "" };
  return states.slice(1).flatMap((state, index) =>
    state === next[states[index]!] ? [] : [`${states[index]} → ${state}`]
  );
}
