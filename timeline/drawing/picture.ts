import { axisOf, bar, escape, label, line, round } from "./svg.ts";
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
  /** Instants that are marked in its row. */
  readonly marks: readonly {
    readonly atMs: number;
    readonly kind: "lost" | "late" | "refused" | "killed";
  }[];
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

/** A picture of who waited for locks and who held them: a lane per process, a row per concurrent call of it. */
export interface Picture {
  /** What it shows, for those who do not see it. */
  readonly title: string;
  /** Whether it is a file of its own, with its title as a heading, instead of an element of a page. */
  readonly isFile?: boolean;
  readonly width?: number;
  readonly fromMs: number;
  readonly toMs: number;
  /** The time that the axis calls 0 s. */
  readonly zeroMs: number;
  /** Values over time. */
  readonly charts?: readonly {
    readonly title: string;
    readonly note: string;
    /** Each value lasts until the next one. */
    readonly steps: readonly { readonly atMs: number; readonly value: number }[];
  }[];
  /** The lanes from top to bottom: their keys and names. */
  readonly lanes: ReadonlyMap<string, string>;
  readonly calls?: readonly DrawnCall[];
  /** The names of the locks in the order of their colours. */
  readonly names?: readonly string[];
  readonly bands?: readonly Band[];
  /** Instants that matter to all lanes. */
  readonly instants?: readonly {
    readonly atMs: number;
    readonly className: "violation" | "excused";
    readonly title: string;
  }[];
  /** Releases of locks, and the grants that they led to. */
  readonly handoffs?: readonly { readonly from: DrawnCall; readonly to: DrawnCall }[];
  readonly legend?: readonly {
    readonly className: string;
    readonly height: number;
    readonly text: string;
  }[];
  readonly note?: string;
}

/** Draws a picture. */
export function drawPicture(picture: Picture): string {
  const { width = 1_500, fromMs, toMs, zeroMs, charts = [], calls = [], isFile } = picture;
  const named = [...picture.lanes.values(), ...charts.flatMap(({ title, note }) => [title, note])];
  const longest = Math.max(0, ...named.map(({ length }) => length));
  const left = Math.max(60, 14 + Math.min(longest, LANE_CHARS) * CHAR);
  const axis = axisOf(fromMs, toMs, left, width - RIGHT);
  const legendTop = isFile ? 34 : 0;
  const legend = drawLegend(picture.legend ?? [], legendTop, width);
  const top = legendTop + legend.height;
  const lanesTop = top + charts.length * CHART;
  const rows = pack(calls);
  const { places, bottom } = stack(picture.lanes, lanesTop, calls, rows);
  const topOf = (call: DrawnCall) => places.get(call.lane)!.y + rows.get(call)! * ROW;
  const pieces = [
    ...isFile ? [label(8, 24, picture.title, "heading")] : [],
    ...legend.pieces,
    ...axis.marks(top, bottom, zeroMs),
    ...charts.flatMap((chart, index) => drawChart(chart, axis, top + index * CHART)),
    ...Array.from(places, ([lane, { y }]) => laneLabel(picture.lanes.get(lane)!, y)),
    ...(picture.bands ?? []).flatMap((band) => drawBand(band, axis, places)),
    ...(picture.handoffs ?? []).flatMap(({ from, to }) => {
      if (!axis.shows(from.endMs, from.endMs) || !axis.shows(to.grantedMs, to.grantedMs)) return [];
      const [x1, x2] = [axis.x(from.endMs), axis.x(to.grantedMs)];
      const ends = { x1, y1: topOf(from) + ROW / 2, x2, y2: topOf(to) + ROW / 2 };
      return [line(ends, "handoff", `handoff of ${to.name}`)];
    }),
    ...calls.map((call) => drawCall(call, topOf(call), axis, picture.names ?? [])),
    ...(picture.instants ?? []).filter(({ atMs }) => axis.shows(atMs, atMs))
      .map(({ atMs, className, title }) => {
        const x = axis.x(atMs);
        const y2 = className === "excused" && charts.length > 0 ? lanesTop : bottom;
        return line({ x1: x, y1: top, x2: x, y2 }, className, title);
      }),
    ...picture.note === undefined ? [] : [label(4, bottom + 12, picture.note, "violation")],
  ];
  const height = round(bottom + FOOT);
  const namespace = isFile ? ' xmlns="http://www.w3.org/2000/svg"' : "";
  const style = isFile ? `<style>${PICTURE_STYLE}</style>` : "";
  const role = calls.some(({ target }) => target !== undefined) ? "group" : "img";
  const name = `role="${role}" aria-label="${escape(picture.title)}"`;
  return `<svg${namespace} viewBox="0 0 ${width} ${height}" ${name}>${style}` +
    `<rect width="${width}" height="${height}" class="paper"/>${pieces.join("\n")}</svg>`;
}

/** As many entries in a row as fit. */
function drawLegend(entries: NonNullable<Picture["legend"]>, top: number, width: number) {
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

function drawChart(
  { title, note, steps }: NonNullable<Picture["charts"]>[number],
  axis: ReturnType<typeof axisOf>,
  top: number,
): string[] {
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
  axis: ReturnType<typeof axisOf>,
  places: ReturnType<typeof stack>["places"],
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
  { name, fromMs, grantedMs, endMs, marks, title, target }: DrawnCall,
  top: number,
  axis: ReturnType<typeof axisOf>,
  names: readonly string[],
): string {
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
) {
  const last = new Map<string, number>();
  for (const call of calls) {
    last.set(call.lane, Math.max(rows.get(call)!, last.get(call.lane) ?? 0));
  }
  const places = new Map<string, { readonly y: number; readonly height: number }>();
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
