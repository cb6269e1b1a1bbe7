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
  /** When, before a loss, a short timer of the process has run for the last time but two. */
  readonly turnUs?: number;
}

/** Starts a process. It stops to lead when its input ends. */
export function startCandidate(options: CandidateOptions): Reporter<CandidateReport> {
  return startReporter(new URL("./candidate.ts", import.meta.url), options);
}

/** One time that a process led. */
export interface Term {
  readonly token: bigint;
  readonly fromUs: number;
  /** When its process claimed to lead for the last time. */
  readonly seenUs: number;
  /** Until when its holder claimed to lead, at most: it may have been told of the loss before. */
  readonly toUs: number;
  /** How its process was told of the end, unless it was killed. */
  readonly lost: CandidateReport | undefined;
}

/** All terms, in the order of their tokens. */
export function termsOf(processes: readonly (readonly CandidateReport[])[]): Term[] {
  const terms = processes.flatMap((reports) =>
    reports.filter(({ what }) => what === "leading").map(({ token, atUs }): Term => {
      const ofTerm = reports.filter((report) => report.token === token);
      const lost = ofTerm.find(({ what }) => what === "lost");
      const claims = ofTerm.filter(({ what }) => what === "claims");
      const untilUs = claims.reduce((max, { untilUs = 0 }) => Math.max(max, untilUs), atUs);
      return {
        ...{ token: BigInt(token), fromUs: atUs, seenUs: claims.at(-1)?.atUs ?? atUs, lost },
        toUs: Math.min(untilUs, lost?.atUs ?? Infinity),
      };
    })
  );
  return terms.sort((a, b) => a.token < b.token ? -1 : 1);
}

/** The terms that began before an earlier one was over, in words. */
export function overlaps(terms: readonly Term[]): string[] {
  let last = terms[0];
  return terms.slice(1).flatMap((term) => {
    const before = last!;
    if (term.toUs > before.toUs) last = term;
    if (term.fromUs >= before.toUs) return [];
    return [
      `${term.token} began ${before.toUs - term.fromUs} µs before the end of ${before.token}`,
    ];
  });
}

/**
 * Which losses their processes saw before the next term began, and which ones later. Those are `unseen` if the
 * process has run since the next term began: one that is frozen, or gets no processor, can see nothing.
 */
export function lossesOf(
  terms: readonly Term[],
): { before: number; later: number; unseen: string[] } {
  const losses = { before: 0, later: 0, unseen: [] as string[] };
  terms.slice(1).forEach(({ fromUs }, index) => {
    const { lost, token } = terms[index]!;
    if (lost === undefined) return;
    if (lost.atUs <= fromUs) losses.before++;
    else losses.later++;
    if (lost.turnUs! > fromUs) losses.unseen.push(`${token}: ${lost.atUs - fromUs} µs late`);
  });
  return losses;
}

/** How long, in ms, nobody led before each term but the first one: since the last claim. */
export function gapsMs(terms: readonly Term[]): number[] {
  return terms.slice(1).map(({ fromUs }, index) =>
    Math.max(0, fromUs - terms[index]!.seenUs) / 1_000
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
