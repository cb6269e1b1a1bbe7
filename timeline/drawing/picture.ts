/**
 * Draws who waited for locks and who held them: a lane for each process, a row for each of its concurrent calls.
 *
 * @module
 */
import { type Axis, axisOf, bar, escape, label, line, round } from "./svg.ts";
import { NAME_COLOURS, PICTURE_STYLE } from "./style.ts";

/** The largest number of calls in one picture. */
export const MAX_CALLS = 1_500;
/** The height of a lane without rows, of a row, and of a chart. */
const LANE = 18;
const ROW = 9;
const CHART = 70;
const FOOT = 18;
const RIGHT = 10;
/** The width of a character of `ui-monospace` at 11 pixels, about. */
const CHAR = 6.7;
/** The longest name of a lane. */
const LANE_CHARS = 44;

/** An instant of a call that is marked in its row. */
export interface Mark {
  readonly atMs: number;
  readonly kind: "lost" | "late" | "refused" | "killed";
}

/** A call and its lease. Times in ms; `Infinity` stands for what did not happen. */
export interface DrawnCall {
  /** The key of its lane. */
  readonly lane: string;
  /** The lock. */
  readonly name: string;
  readonly fromMs: number;
  readonly grantedMs: number;
  /** The end of the call, and of its lease. */
  readonly endMs: number;
  readonly marks: readonly Mark[];
  /** What a reader sees who points at it. */
  readonly title: string;
  /** The id of what a click leads to, if there is something. */
  readonly target?: string;
}

/** A time that matters to lanes. */
export interface Band {
  readonly lanes: readonly string[];
  readonly fromMs: number;
  readonly toMs: number;
  readonly className: "fault" | "fault destructive";
  readonly title: string;
}

/** An instant that matters to all lanes. */
export interface Instant {
  readonly atMs: number;
  readonly className: "violation" | "excused";
  readonly title: string;
}

/** The release of a lock, and the grant that it led to. */
export interface Handoff {
  readonly from: DrawnCall;
  readonly to: DrawnCall;
}

/** A value over time, as steps. */
export interface Chart {
  readonly title: string;
  readonly note: string;
  /** Each value lasts until the next one. */
  readonly steps: readonly { readonly atMs: number; readonly value: number }[];
}

/** An entry of the legend. */
export interface LegendEntry {
  readonly className: string;
  readonly height: number;
  readonly text: string;
}

/** What a picture shows. */
export interface Picture {
  /** What it shows, for those who do not see it. */
  readonly title: string;
  readonly width?: number;
  readonly fromMs: number;
  readonly toMs: number;
  /** The time that the axis calls 0 s. */
  readonly zeroMs: number;
  readonly charts?: readonly Chart[];
  /** The lanes from top to bottom: their keys and names. */
  readonly lanes: ReadonlyMap<string, string>;
  readonly calls?: readonly DrawnCall[];
  /** The names of the locks in the order of their colours. */
  readonly names?: readonly string[];
  readonly bands?: readonly Band[];
  readonly instants?: readonly Instant[];
  readonly handoffs?: readonly Handoff[];
  readonly legend?: readonly LegendEntry[];
  readonly note?: string;
}

/** The place of a lane. */
interface Place {
  readonly y: number;
  readonly height: number;
}

/** Draws a picture as an element of a page. */
export function drawPicture(picture: Picture): string {
  return draw(picture, "", []);
}

/** Draws a picture as a file of its own, with its title as a heading. */
export function drawFile(picture: Picture): string {
  const heading = [label(8, 24, picture.title, "heading")];
  return `${draw(picture, ' xmlns="http://www.w3.org/2000/svg"', heading)}\n`;
}

function draw(picture: Picture, attributes: string, heading: readonly string[]): string {
  const { width = 1_500, fromMs, toMs, zeroMs, charts = [], calls = [], legend = [] } = picture;
  const named = [...picture.lanes.values(), ...charts.flatMap(({ title, note }) => [title, note])];
  const longest = Math.max(0, ...named.map(({ length }) => length));
  const left = Math.max(60, 14 + Math.min(longest, LANE_CHARS) * CHAR);
  const axis = axisOf(fromMs, toMs, left, width - RIGHT);
  const legendTop = heading.length > 0 ? 34 : 0;
  const { pieces: legendPieces, height: legendHeight } = drawLegend(legend, legendTop, width);
  const top = legendTop + legendHeight;
  const lanesTop = top + charts.length * CHART;
  const rows = pack(calls);
  const { places, bottom } = stack(picture.lanes, lanesTop, calls, rows);
  const pieces = [
    ...heading,
    ...legendPieces,
    ...axis.marks(top, bottom, zeroMs),
    ...charts.flatMap((chart, index) => drawChart(chart, axis, top + index * CHART)),
    ...Array.from(places, ([lane, { y }]) => laneLabel(picture.lanes.get(lane)!, y)),
    ...(picture.bands ?? []).flatMap((band) => drawBand(band, axis, places)),
    ...(picture.handoffs ?? []).flatMap((handoff) => drawHandoff(handoff, axis, places, rows)),
    ...calls.map((call) => drawCall(call, axis, places, rows, picture.names ?? [])),
    ...(picture.instants ?? []).filter(({ atMs }) => axis.shows(atMs, atMs))
      .map(({ atMs, className, title }) => {
        const x = axis.x(atMs);
        const y2 = className === "excused" && charts.length > 0 ? lanesTop : bottom;
        return line({ x1: x, y1: top, x2: x, y2 }, className, title);
      }),
    ...picture.note === undefined ? [] : [label(4, bottom + 12, picture.note, "violation")],
  ];
  const height = round(bottom + FOOT);
  const style = heading.length > 0 ? `<style>${PICTURE_STYLE}</style>` : "";
  const role = calls.some(({ target }) => target !== undefined) ? "group" : "img";
  const name = `role="${role}" aria-label="${escape(picture.title)}"`;
  return `<svg${attributes} viewBox="0 0 ${width} ${height}" ${name}>${style}` +
    `<rect width="${width}" height="${height}" class="paper"/>${pieces.join("\n")}</svg>`;
}

/** As many entries in a row as fit. */
function drawLegend(entries: readonly LegendEntry[], top: number, width: number) {
  let [x, y] = [8, top + 8];
  const pieces = entries.map(({ className, height, text }) => {
    const length = 48 + text.length * CHAR;
    if (x > 8 && x + length > width) [x, y] = [8, y + 18];
    const box = { x, y: y + (12 - height) / 2, width: 26, height, className, title: text };
    const piece = bar(box) + label(x + 32, y + 10, text);
    x += length;
    return piece;
  });
  return { pieces, height: entries.length === 0 ? 0 : y + 24 - top };
}

function laneLabel(name: string, y: number): string {
  return label(4, y + 13, name.length > LANE_CHARS ? `${name.slice(0, LANE_CHARS - 1)}…` : name);
}

function drawChart({ title, note, steps }: Chart, axis: Axis, top: number): string[] {
  const base = top + CHART - 4;
  const most = steps.reduce((most, { value }) => Math.max(most, value), 0) || 1;
  let [path, before] = ["", base];
  steps.forEach(({ atMs, value }, index) => {
    const toMs = steps[index + 1]?.atMs ?? axis.toMs;
    if (!axis.shows(atMs, toMs)) return;
    if (path === "") path = `M${round(axis.x(atMs))} ${base}`;
    const y = value <= 0 ? base : round(base - Math.max(1, value / most * (CHART - 10)));
    if (y !== before) path += `H${round(axis.x(atMs))}V${y}`;
    before = y;
  });
  path += `H${round(axis.x(axis.toMs))}V${base}Z`;
  const text = `${title}, ${note}`;
  return [
    label(4, top + 14, title),
    label(4, top + 28, note, "time"),
    `<path d="${steps.length === 0 ? "" : path}" class="chart"><title>${
      escape(text)
    }</title></path>`,
  ];
}

function drawBand(
  { lanes, fromMs, toMs, className, title }: Band,
  axis: Axis,
  places: ReadonlyMap<string, Place>,
): string[] {
  if (!axis.shows(fromMs, toMs)) return [];
  const x = axis.x(fromMs);
  const width = Math.max(3, axis.x(toMs) - x);
  return lanes.flatMap((lane) => {
    const place = places.get(lane);
    if (place === undefined) return [];
    return [bar({ x, y: place.y + 2, width, height: place.height - 4, className, title })];
  });
}

/** A wait and the lease that followed, with its marks. */
function drawCall(
  call: DrawnCall,
  axis: Axis,
  places: ReadonlyMap<string, Place>,
  rows: ReadonlyMap<DrawnCall, number>,
  names: readonly string[],
): string {
  const { name, fromMs, grantedMs, endMs, marks, title, target } = call;
  const top = places.get(call.lane)!.y + rows.get(call)! * ROW;
  const colour = `name${Math.max(0, names.indexOf(name)) % NAME_COLOURS}`;
  const box = (fromMs: number, toMs: number, className: string, y: number, height: number) => {
    if (!axis.shows(fromMs, toMs)) return "";
    const x = axis.x(fromMs);
    return bar({ x, y: top + y, width: axis.x(toMs) - x, height, className, title });
  };
  const pieces = [
    box(fromMs, Math.min(grantedMs, endMs), `wait ${colour}`, 4, 3),
    grantedMs < Infinity ? box(grantedMs, endMs, `lease ${colour}`, 2, ROW - 2) : "",
    ...marks.map(({ atMs, kind }) => {
      return box(atMs, atMs, kind, 1, ROW).replace('width="1.5"', 'width="3"');
    }),
  ].join("");
  if (target === undefined) return pieces;
  return `<a href="#r${target}" id="c${target}" aria-label="${escape(title)}">${pieces}</a>`;
}

function drawHandoff(
  { from, to }: Handoff,
  axis: Axis,
  places: ReadonlyMap<string, Place>,
  rows: ReadonlyMap<DrawnCall, number>,
): string[] {
  if (!axis.shows(from.endMs, from.endMs) || !axis.shows(to.grantedMs, to.grantedMs)) return [];
  const y = (call: DrawnCall) => places.get(call.lane)!.y + rows.get(call)! * ROW + ROW / 2;
  const ends = {
    ...{ x1: axis.x(from.endMs), y1: y(from) },
    ...{ x2: axis.x(to.grantedMs), y2: y(to) },
  };
  return [line(ends, "handoff", `handoff of ${to.name}`)];
}

/** Assigns a row to each call, so that calls of one lane do not hide each other. */
function pack(calls: readonly DrawnCall[]): Map<DrawnCall, number> {
  const rows = new Map<DrawnCall, number>();
  for (const ofLane of Map.groupBy(calls, ({ lane }) => lane).values()) {
    const freeMs: number[] = [];
    for (const call of ofLane.toSorted((a, b) => a.fromMs - b.fromMs)) {
      const free = freeMs.findIndex((ms) => ms <= call.fromMs);
      const row = free >= 0 ? free : freeMs.length;
      freeMs[row] = goneMs(call);
      rows.set(call, row);
    }
  }
  return rows;
}

/** When a call is over in the picture, with all of its marks. */
function goneMs({ endMs, marks }: Pick<DrawnCall, "endMs" | "marks">): number {
  return Math.max(endMs, ...marks.map(({ atMs }) => atMs));
}

/** Stacks lanes, each as high as its rows need. */
function stack(
  lanes: ReadonlyMap<string, string>,
  top: number,
  calls: readonly DrawnCall[],
  rows: ReadonlyMap<DrawnCall, number>,
): { places: Map<string, Place>; bottom: number } {
  const last = new Map<string, number>();
  for (const call of calls) {
    last.set(call.lane, Math.max(rows.get(call)!, last.get(call.lane) ?? 0));
  }
  const places = new Map<string, Place>();
  let y = top;
  for (const lane of lanes.keys()) {
    const height = Math.max(LANE, ((last.get(lane) ?? 0) + 1) * ROW + 3);
    places.set(lane, { y, height });
    y += height;
  }
  return { places, bottom: y };
}

/** How far a call is from an instant, in ms. */
export function distanceMs(
  call: Pick<DrawnCall, "fromMs" | "endMs" | "marks">,
  atMs: number,
): number {
  return Math.max(call.fromMs - atMs, atMs - goneMs(call), 0);
}
