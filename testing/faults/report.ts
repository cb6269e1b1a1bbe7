/**
 * The report of a run as text.
 *
 * @module
 */
import type { Verdict, Violation } from "./checker.ts";
import type { FaultEvent, History, WorkerEvent } from "./history.ts";

/** The largest numbers of violations, and of events for each, in the report. */
const TOLD = 10;
const EVENTS_TOLD = 24;

/** Seconds since the start of the run. */
export function secondsOf(atUs: number, { startUs }: History): string {
  return ((atUs - startUs) / 1e6).toFixed(6);
}

/** How often each fault was drawn. */
export function faultCounts(faults: readonly FaultEvent[]): [fault: string, count: number][] {
  const counts = new Map<string, number>();
  for (const { fault } of faults) counts.set(fault, (counts.get(fault) ?? 0) + 1);
  return [...counts].sort(([a], [b]) => a < b ? -1 : 1);
}

/** The run in a few lines: seed, counts, faults, and each violation with the events around it. */
export function textReport(history: History, verdict: Verdict): string {
  const { seed, strategy, startUs, endUs, faults } = history;
  const { isGood, counts, violations, excused } = verdict;
  const lines = [
    `${isGood ? "ok" : "FAILED"}: ${strategy}, seed ${seed}, ${
      ((endUs - startUs) / 1e6).toFixed(1)
    } s`,
    `  ${counts.calls} calls: ${counts.grants} granted, ${counts.failed} rejected, ` +
    `${counts.crashed} died; ${counts.renewals} renewals, ${counts.lost} leases lost`,
    `  ${counts.writes} writes taken, ${counts.refused} refused`,
    `  faults: ${faultCounts(faults).map(([fault, n]) => `${fault} ${n}`).join(", ") || "none"}`,
    `  violations: ${kindsOf(counts.violations)}; excused: ${kindsOf(counts.excused)}`,
  ];
  for (const violation of violations.slice(0, TOLD)) lines.push(...tell(violation, history));
  const more = violations.length - TOLD;
  if (more > 0) lines.push(`  and ${more} more`);
  if (excused.length > 0) lines.push("  the first excused finding:", ...tell(excused[0]!, history));
  return lines.join("\n");
}

/** Kinds and their counts. */
export function kindsOf(counts: Readonly<Partial<Record<string, number>>>): string {
  return Object.entries(counts).map(([kind, n]) => `${n} ${kind}`).join(", ") || "none";
}

function tell(violation: Violation, history: History): string[] {
  const { kind, atUs, name, message, events, excuse } = violation;
  const where = name === undefined ? "" : ` of "${name}"`;
  const skipped = events.length - EVENTS_TOLD;
  return [
    `  ${kind}${where} at ${secondsOf(atUs, history)} s: ${message}`,
    ...excuse ? [`    excused by ${faultText(excuse, history)}`] : [],
    ...events.slice(0, EVENTS_TOLD).map((event) => `    ${eventText(event, history)}`),
    ...skipped > 0 ? [`    and ${skipped} events more`] : [],
    ...faultsAround(violation, history).map((fault) => `    fault: ${faultText(fault, history)}`),
  ];
}

/** An event in a line. */
export function eventText(event: WorkerEvent, history: History): string {
  const { atUs, worker, call, kind, mode, owner, steals } = event;
  const { token, deadlineUs, position, reason } = event;
  return [
    `${secondsOf(atUs, history)} ${worker} ${call} ${kind}`,
    kind === "invoke" && mode !== undefined ? ` ${mode}` : "",
    kind === "invoke" && owner !== undefined ? ` under ${owner}` : "",
    steals ? " as a thief" : "",
    token === undefined ? "" : ` token ${token}`,
    // `null` in a history that was read from JSON: no deadline.
    (deadlineUs ?? Infinity) === Infinity ? "" : ` until ${secondsOf(deadlineUs!, history)}`,
    position === undefined ? "" : ` at place ${position}`,
    reason === undefined ? "" : ` (${reason})`,
  ].join("");
}

/** A fault in a line. */
export function faultText(fault: FaultEvent, history: History): string {
  const until = fault.untilUs === undefined ? "" : ` until ${secondsOf(fault.untilUs, history)}`;
  return `${fault.fault} of ${fault.target} at ${secondsOf(fault.atUs, history)}${until}`;
}

/** The faults between the first and the last event of a violation. */
export function faultsAround({ events, atUs }: Violation, { faults }: History): FaultEvent[] {
  const fromUs = events[0]?.atUs ?? atUs;
  const toUs = events.at(-1)?.atUs ?? atUs;
  return faults.filter((fault) => fault.atUs <= toUs && (fault.untilUs ?? fault.atUs) >= fromUs)
    .slice(0, TOLD);
}
