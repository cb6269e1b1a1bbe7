/**
 * Pictures of a run: an overview, and the events around an instant.
 *
 * @module
 */
import {
  type Band,
  distanceMs,
  type DrawnCall,
  drawPicture,
  MAX_CALLS,
} from "../../timeline/drawing/picture.ts";
import type { Call } from "./calls.ts";
import type { Verdict, Violation } from "./checker.ts";
import type { FaultEvent, History } from "./history.ts";
import { eventText, faultCounts, faultText, secondsOf } from "./report.ts";

/** How many columns the overview has. */
const COLUMNS = 450;

const LEGEND = [
  { className: "wait name0", height: 4, text: "waits (a colour per name)" },
  { className: "lease name0", height: 9, text: "lease, until its release, loss or deadline" },
  { className: "lost", height: 12, text: "lost" },
  { className: "refused", height: 12, text: "write refused" },
  { className: "fault", height: 12, text: "fault" },
  { className: "fault destructive", height: 12, text: "fault that may lose data" },
];

/** The whole run: the rate of grants, the faults by kind, the violations. */
export function overview(
  history: History,
  { violations, excused }: Verdict,
  calls: readonly Call[],
): string {
  const { startUs, endUs, faults } = history;
  return drawPicture({
    ...{ title: "The whole run", fromMs: startUs / 1e3, toMs: endUs / 1e3, zeroMs: startUs / 1e3 },
    lanes: new Map(faultCounts(faults).map(([fault, n]) => [fault, `${fault} × ${n}`])),
    charts: [grantsOver(calls, history)],
    bands: faults.map((fault) => bandOf(fault, [fault.fault], history)),
    instants: [...instantsOf(excused, "excused "), ...instantsOf(violations, "")],
    legend: LEGEND,
  });
}

/** Grants over time. */
function grantsOver(calls: readonly Call[], { startUs, endUs }: History) {
  const counts = new Uint32Array(COLUMNS);
  const columnUs = Math.max(1, (endUs - startUs) / COLUMNS);
  for (const { grantedUs } of calls) {
    const index = Math.floor((grantedUs - startUs) / columnUs);
    if (index >= 0 && index <= COLUMNS) counts[Math.min(index, COLUMNS - 1)]!++;
  }
  const most = counts.reduce((a, b) => Math.max(a, b), 1);
  const steps = Array.from(counts, (value, index) => {
    return { atMs: (startUs + index * columnUs) / 1e3, value };
  });
  return { title: "grants", note: `≤ ${most} per ${perText(columnUs)}`, steps };
}

function perText(us: number): string {
  return us >= 1e6 ? `${(us / 1e6).toFixed(1)} s` : `${(us / 1e3).toFixed(1)} ms`;
}

function bandOf(fault: FaultEvent, lanes: readonly string[], history: History): Band {
  const { atUs, untilUs = atUs, destructive } = fault;
  const className = destructive ? "fault destructive" : "fault";
  const title = faultText(fault, history);
  return { lanes, fromMs: atUs / 1e3, toMs: untilUs / 1e3, className, title };
}

function instantsOf(violations: readonly Violation[], prefix: string) {
  return violations.map(({ kind, atUs, message, excuse }) => ({
    atMs: atUs / 1e3,
    className: excuse ? "excused" as const : "violation" as const,
    title: `${prefix}${kind}: ${message}`,
  }));
}

/** The time span of a picture. */
export interface Span {
  readonly fromUs: number;
  readonly toUs: number;
}

/** The calls of all workers in a span: a lane for each, faults behind, violations in front. */
export function timeline(
  { fromUs, toUs }: Span,
  history: History,
  violations: readonly Violation[],
  calls: readonly Call[],
): string {
  const shows = (startUs: number, endUs: number) => startUs <= toUs && endUs >= fromUs;
  const seen = calls.filter((call) => shows(call.invokeUs, goneUs(call)))
    .map((call) => drawn(call, history));
  const first = violations.find(({ atUs }) => shows(atUs, atUs));
  const centreMs = (first?.atUs ?? (fromUs + toUs) / 2) / 1e3;
  const shown = seen.length <= MAX_CALLS ? seen : seen
    .toSorted((a, b) => distanceMs(a, centreMs) - distanceMs(b, centreMs)).slice(0, MAX_CALLS);
  const workers = [...new Set(shown.map(({ lane }) => lane))]
    .sort((a, b) => a.localeCompare(b, "en", { numeric: true }));
  const faults = history.faults.filter(({ atUs, untilUs }) => shows(atUs, untilUs ?? atUs));
  const servers = faults.filter((fault) => !workers.some(isHitBy(fault)))
    .map(({ target }) => target);
  const left = seen.length - shown.length;
  return drawPicture({
    title: spanText({ fromUs, toUs }, history),
    ...{ fromMs: fromUs / 1e3, toMs: toUs / 1e3, zeroMs: history.startUs / 1e3, calls: shown },
    lanes: new Map([...servers, ...workers].map((lane) => [lane, lane])),
    names: [...new Set(calls.map(({ name }) => name))],
    bands: faults.map((fault) => {
      const hit = workers.filter(isHitBy(fault));
      return bandOf(fault, hit.length > 0 ? hit : [fault.target], history);
    }),
    instants: instantsOf(violations.filter(({ atUs }) => shows(atUs, atUs)), ""),
    ...left > 0 && { note: `${left} not shown` },
  });
}

/** The span from an instant, at most `longestUs` long, in which a picture can show all calls. */
export function sampleFrom(fromUs: number, longestUs: number, calls: readonly Call[]): Span {
  const ends = calls.filter(({ invokeUs }) => invokeUs >= fromUs).map(({ invokeUs }) => invokeUs)
    .sort((a, b) => a - b);
  return { fromUs, toUs: Math.min(fromUs + longestUs, ends[MAX_CALLS / 2] ?? Infinity) };
}

/** Whether a fault hit a worker; its target names one incarnation, or all of them. */
function isHitBy({ target }: FaultEvent): (worker: string) => boolean {
  const named = target.match(/\bw\d+(\.\d+)?\b/g) ?? [];
  return (worker) => named.some((name) => name === worker || name === worker.split(".")[0]);
}

/** A wait and the lease that followed, with its refused writes and its loss. */
function drawn(call: Call, history: History): DrawnCall {
  const { name, worker, token, invokeUs, grantedUs, failedUs, endUs, events } = call;
  const lastUs = events.at(-1)!.atUs;
  const text = `${worker} ${name}\n${events.map((event) => eventText(event, history)).join("\n")}`;
  const isGranted = grantedUs < Infinity;
  const heldUs = Math.max(grantedUs, Math.min(endUs, goneUs(call)));
  return {
    ...{ lane: worker, name, fromMs: invokeUs / 1e3, grantedMs: grantedUs / 1e3 },
    endMs: (isGranted ? heldUs : Math.min(failedUs, lastUs)) / 1e3,
    marks: events.flatMap(({ atUs, kind }) =>
      kind === "lost" || kind === "refused" ? [{ atMs: atUs / 1e3, kind }] : []
    ),
    title: `${token === null ? "" : `token ${token} of `}${text}`,
  };
}

/** When a call, and its lease, are over; at most 10 s after its last event. */
function goneUs({ failedUs, grantedUs, endUs, events }: Call): number {
  const lastUs = events.at(-1)!.atUs;
  if (failedUs < Infinity || grantedUs === Infinity) return lastUs;
  return Math.max(lastUs, Math.min(endUs, lastUs + 10e6));
}

/** The spans around violations; violations close to each other share a span. */
export function spansAround(violations: readonly Violation[], history: History): Span[] {
  const spans: Span[] = [];
  for (const violation of violations.toSorted((a, b) => a.atUs - b.atUs)) {
    const span = spanAround(violation, history);
    const before = spans.at(-1);
    if (before && span.fromUs <= before.toUs && span.toUs - before.fromUs < 4e6) {
      spans[spans.length - 1] = { fromUs: before.fromUs, toUs: Math.max(before.toUs, span.toUs) };
    } else spans.push(span);
  }
  return spans;
}

/** The span from the events before a violation to those after it, within bounds. */
function spanAround({ events, atUs }: Violation, { startUs, endUs }: History): Span {
  const near = events.map((event) => event.atUs)
    .filter((us) => us > atUs - 10e6 && us < atUs + 3e6);
  const fromUs = Math.min(atUs - 20_000, ...near);
  const toUs = Math.max(atUs + 20_000, ...near);
  const marginUs = (toUs - fromUs) / 10;
  return { fromUs: Math.max(startUs, fromUs - marginUs), toUs: Math.min(endUs, toUs + marginUs) };
}

/** Names a span in seconds since the start of the run. */
export function spanText({ fromUs, toUs }: Span, history: History): string {
  return `${secondsOf(fromUs, history)} s to ${secondsOf(toUs, history)} s`;
}
