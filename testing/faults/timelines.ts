/**
 * Pictures of a run: an overview, and the events around an instant.
 *
 * @module
 */
import type { Call } from "./calls.ts";
import type { Verdict, Violation } from "./checker.ts";
import type { FaultEvent, History } from "./history.ts";
import { goneUs, LANE, pack, ROW, stack } from "./lanes.ts";
import { eventText, faultCounts, faultText, secondsOf } from "./report.ts";
import { type Axis, axisOf, bar, label, line, svg } from "./svg.ts";

const WIDTH = 1_500;
/** Where lanes begin; their names are to the left. */
const LEFT = 130;
const CHART = 70;
const FOOT = 18;
/** How many columns the overview has. */
const COLUMNS = 450;
/** The largest number of calls in one picture. */
const SHOWN = 1_500;
/** The number of colours for lock names. */
const COLOURS = 6;

/** The whole run: the rate of grants, the faults by kind, the violations. */
export function overview(
  history: History,
  { violations, excused }: Verdict,
  calls: readonly Call[],
) {
  const axis = axisOf(history.startUs, history.endUs, LEFT, WIDTH - 10);
  const faults = faultCounts(history.faults);
  const rows = new Map(faults.map(([fault], index) => [fault, CHART + index * LANE]));
  const height = CHART + faults.length * LANE;
  return svg(WIDTH, height + FOOT, [
    ...axis.marks(height, history.startUs),
    ...columns(calls, axis),
    ...faults.map(([fault, n]) => label(4, rows.get(fault)! + 13, `${fault} × ${n}`)),
    ...history.faults.map((fault) => faultBar(fault, axis, rows.get(fault.fault)!, LANE, history)),
    ...excused.map(({ kind, atUs, message }) =>
      line(axis.x(atUs), CHART, "excused", `excused ${kind}: ${message}`)
    ),
    ...violations.map(({ kind, atUs, message }) =>
      line(axis.x(atUs), height, "violation", `${kind}: ${message}`)
    ),
  ]);
}

/** Grants over time. */
function columns(calls: readonly Call[], axis: Axis): string[] {
  const counts = new Uint32Array(COLUMNS);
  const columnUs = Math.max(1, (axis.toUs - axis.fromUs) / COLUMNS);
  for (const { grantedUs } of calls) {
    const index = Math.floor((grantedUs - axis.fromUs) / columnUs);
    if (index >= 0 && index <= COLUMNS) counts[Math.min(index, COLUMNS - 1)]!++;
  }
  const most = counts.reduce((a, b) => Math.max(a, b), 1);
  const pieces = [
    label(4, 14, "grants"),
    label(4, 28, `≤ ${most} per ${perText(columnUs)}`, "time"),
  ];
  counts.forEach((count, index) => {
    if (count === 0) return;
    const x = axis.x(axis.fromUs + index * columnUs);
    const height = Math.max(1, count / most * (CHART - 8));
    const box = { x, y: CHART - 4 - height, width: (WIDTH - 10 - LEFT) / COLUMNS, height };
    pieces.push(bar({ ...box, className: "grants", title: `${count} grants` }));
  });
  return pieces;
}

function perText(us: number): string {
  return us >= 1e6 ? `${(us / 1e6).toFixed(1)} s` : `${(us / 1e3).toFixed(1)} ms`;
}

function faultBar(
  fault: FaultEvent,
  axis: Axis,
  y: number,
  height: number,
  history: History,
): string {
  const x = axis.x(fault.atUs);
  const width = Math.max(3, axis.x(fault.untilUs ?? fault.atUs) - x);
  const className = fault.destructive ? "fault destructive" : "fault";
  const title = faultText(fault, history);
  return bar({ x, y: y + 2, width, height: height - 4, className, title });
}

/** The time span of a picture. */
export interface Span {
  readonly fromUs: number;
  readonly toUs: number;
}

/** The calls of all workers in a span: a lane for each, faults behind, violations in front. */
export function timeline(
  span: Span,
  history: History,
  violations: readonly Violation[],
  calls: readonly Call[],
): string {
  const axis = axisOf(span.fromUs, span.toUs, LEFT, WIDTH - 10);
  const seen = calls.filter((call) => axis.shows(call.invokeUs, goneUs(call)));
  const shown = seen.length > SHOWN ? nearest(seen, violations, axis) : seen;
  const workers = [...new Set(shown.map(({ worker }) => worker))]
    .sort((a, b) => a.localeCompare(b, "en", { numeric: true }));
  const faults = history.faults.filter(({ atUs, untilUs }) => axis.shows(atUs, untilUs ?? atUs));
  const servers = [...new Set(faults.filter((fault) => !workers.some(isHitBy(fault))).map(laneOf))];
  const rows = pack(shown);
  const { lanes, height } = stack([...servers, ...workers], shown, rows);
  const names = [...new Set(calls.map(({ name }) => name))];
  return svg(WIDTH, height + FOOT, [
    ...Array.from(lanes, ([lane, { y }]) => label(4, y + 13, lane)),
    ...axis.marks(height, history.startUs),
    ...faults.flatMap((fault) => {
      const hit = workers.filter(isHitBy(fault));
      const at = hit.length > 0 ? hit : [laneOf(fault)];
      return at.map((lane) => {
        const { y, height } = lanes.get(lane)!;
        return faultBar(fault, axis, y, height, history);
      });
    }),
    ...shown.flatMap((call) => {
      const y = lanes.get(call.worker)!.y + rows.get(call)! * ROW;
      return callBars(call, axis, y, names, history);
    }),
    ...violations.filter(({ atUs }) => axis.shows(atUs, atUs)).map((violation) => {
      const { kind, atUs, message, excuse } = violation;
      const className = excuse ? "excused" : "violation";
      return line(axis.x(atUs), height, className, `${kind}: ${message}`);
    }),
    ...seen.length > SHOWN
      ? [label(4, height + 12, `${seen.length - SHOWN} not shown`, "violation")]
      : [],
  ]);
}

/** The calls nearest to the first violation, or to the middle of the span without one. */
function nearest(calls: readonly Call[], violations: readonly Violation[], axis: Axis): Call[] {
  const first = violations.find(({ atUs }) => axis.shows(atUs, atUs));
  const atUs = first?.atUs ?? (axis.fromUs + axis.toUs) / 2;
  const distanceUs = (call: Call) => Math.max(call.invokeUs - atUs, atUs - goneUs(call), 0);
  return calls.toSorted((a, b) => distanceUs(a) - distanceUs(b)).slice(0, SHOWN);
}

/** The span from an instant, at most `longestUs` long, in which a picture can show all calls. */
export function sampleFrom(fromUs: number, longestUs: number, calls: readonly Call[]): Span {
  const ends = calls.filter(({ invokeUs }) => invokeUs >= fromUs).map(({ invokeUs }) => invokeUs)
    .sort((a, b) => a - b);
  return { fromUs, toUs: Math.min(fromUs + longestUs, ends[SHOWN / 2] ?? Infinity) };
}

/** Whether a fault hit a worker; its target names one incarnation, or all of them. */
function isHitBy({ target }: FaultEvent): (worker: string) => boolean {
  const named = target.match(/\bw\d+(\.\d+)?\b/g) ?? [];
  return (worker) => named.some((name) => name === worker || name === worker.split(".")[0]);
}

function laneOf({ target }: FaultEvent): string {
  return target;
}

/** A wait and the lease that followed, with its refused writes and its loss. */
function callBars(
  call: Call,
  axis: Axis,
  top: number,
  names: readonly string[],
  history: History,
): string[] {
  const { name, worker, token, invokeUs, grantedUs, failedUs, endUs, events } = call;
  const lastUs = events.at(-1)!.atUs;
  const colour = `name${names.indexOf(name) % COLOURS}`;
  const waitedUs = Math.min(grantedUs, failedUs, lastUs);
  const text = `${worker} ${name}\n${events.map((event) => eventText(event, history)).join("\n")}`;
  const box = (fromUs: number, toUs: number, className: string, y: number, height: number) => {
    if (!axis.shows(fromUs, toUs)) return [];
    const x = axis.x(fromUs);
    const title = `${token === null ? "" : `token ${token} of `}${text}`;
    return [bar({ x, y: top + y, width: axis.x(toUs) - x, height, className, title })];
  };
  return [
    ...box(invokeUs, waitedUs, `wait ${colour}`, 4, 3),
    ...grantedUs < Infinity
      ? box(
        grantedUs,
        Math.max(grantedUs, Math.min(endUs, goneUs(call))),
        `lease ${colour}`,
        2,
        ROW - 2,
      )
      : [],
    ...events.filter(({ kind }) => ["lost", "refused"].includes(kind))
      .flatMap(({ atUs, kind }) => box(atUs, atUs, kind, 1, ROW)),
  ];
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
