/**
 * Draws a run as an SVG picture: who held the lock when, who waited, the killed worker, and the fencing
 * tokens. The timeline in text is in `timeline.ts`.
 *
 * @module
 */
import { parse, View } from "vega";
import { compile, type TopLevelSpec } from "vega-lite";
import type { Run } from "./checks.ts";
import { type Hold, holdsOf, recoveryOf } from "./history.ts";

/** More holds would be too narrow to see. */
const MAX_HOLDS = 40;
const WIDTH = 700;
const ROW_HEIGHT = 26;
const TOKENS_HEIGHT = 110;

const WAITS = "waits for the lock";
const HOLDS = "holds the lock";
const KILLED = "was killed while it held the lock";

/** Each colour of the light picture, and the one in its place when the reader prefers dark. */
const COLOURS = {
  background: ["#ffffff", "#0d1117"],
  text: ["#1f2328", "#e6edf3"],
  lines: ["#d1d9e0", "#30363d"],
  [WAITS]: ["#afb8c1", "#57606a"],
  [HOLDS]: ["#0969da", "#4493f8"],
  [KILLED]: ["#cf222e", "#f85149"],
} as const;

/** Attributes that change no pixel. */
const UNUSED =
  / (?:class|role|pointer-events|aria-[a-z]+)="[^"]*"| (?:opacity|stroke-width|stroke-opacity)="1"/g;

/** A time that a worker spent in one state. */
interface Bar {
  readonly worker: string;
  readonly state: string;
  readonly fromMs: number;
  readonly toMs: number;
}

/** The picture; `title` is written above it. It has a background of its own, light or dark. */
export async function drawPicture(run: Run, title: string): Promise<string> {
  const holds = shownHolds(run);
  const { spec } = compile(specOf(run, holds, title));
  const view = new View(parse(spec), { renderer: "none" });
  try {
    return `${withDarkColours(shortened(await view.toSVG()))}\n`;
  } finally {
    view.finalize();
  }
}

/** The holds that fit: those around the kill, else the first ones. */
export function shownHolds({ events }: Pick<Run, "events">): Hold[] {
  const holds = holdsOf(events);
  const kill = recoveryOf(events, holds);
  const killed = kill === null ? 0 : holds.filter(({ fromMs }) => fromMs < kill.atMs).length;
  const last = Math.max(0, holds.length - MAX_HOLDS);
  const first = Math.min(last, Math.max(0, killed - MAX_HOLDS / 2));
  return holds.slice(first, first + MAX_HOLDS);
}

function specOf(run: Run, holds: readonly Hold[], title: string): TopLevelSpec {
  const originMs = Math.min(...holds.map(({ fromMs }) => fromMs));
  const kill = recoveryOf(run.events, holds);
  const workers = Array.from({ length: run.workers }, (_, index) => nameOf(index + 1));
  const killed = kill === null ? [] : [{ worker: nameOf(kill.worker), atMs: kill.atMs - originMs }];
  const tokens = holds.map(({ worker, token, fromMs }) => ({
    worker: nameOf(worker),
    atMs: fromMs - originMs,
    token: Number(token - holds[0]!.token),
  }));
  return {
    title: { text: title, anchor: "start", fontSize: 15, offset: 14 },
    config: CONFIG,
    background: COLOURS.background[0],
    padding: 14,
    spacing: 14,
    vconcat: [
      timelineOf(workers, barsOf(holds, originMs), killed),
      tokensOf(tokens),
    ],
    resolve: { scale: { x: "shared" } },
  } as TopLevelSpec;
}

/** When each worker waited and held the lock. A wait before the first shown hold is cut. */
function barsOf(holds: readonly Hold[], originMs: number): Bar[] {
  return holds.flatMap(({ worker, waitedMs, fromMs, toMs }) => {
    const atMs = fromMs - originMs;
    const common = { worker: nameOf(worker) };
    return [
      { ...common, state: WAITS, fromMs: Math.max(0, atMs - waitedMs), toMs: atMs },
      { ...common, state: HOLDS, fromMs: atMs, toMs: (toMs ?? fromMs) - originMs },
    ];
  });
}

function timelineOf(workers: readonly string[], bars: readonly Bar[], killed: readonly object[]) {
  const y = { field: "worker", type: "nominal", title: null, scale: { domain: workers } };
  const domain = [HOLDS, WAITS, ...killed.length > 0 ? [KILLED] : []] as (keyof typeof COLOURS)[];
  const color = {
    field: "state",
    type: "nominal",
    title: null,
    scale: { domain, range: domain.map((state) => COLOURS[state][0]) },
    legend: { orient: "top", labelLimit: WIDTH, symbolType: "square" },
  };
  const span = (state: string, height: number) => ({
    transform: [{ filter: { field: "state", equal: state } }],
    mark: { type: "bar", height },
    encoding: { x: timeAxis("fromMs", null), x2: { field: "toMs" }, y, color },
  });
  return {
    width: WIDTH,
    height: { step: ROW_HEIGHT },
    data: { values: bars },
    layer: [
      span(WAITS, 3),
      span(HOLDS, 16),
      {
        data: { values: killed.map((kill) => ({ ...kill, state: KILLED })) },
        mark: { type: "point", shape: "diamond", size: 140, filled: true, opacity: 1 },
        encoding: { x: timeAxis("atMs", null), y, color },
      },
    ],
  };
}

/** The token of each grant: a line that only rises. */
function tokensOf(tokens: readonly object[]) {
  return {
    width: WIDTH,
    height: TOKENS_HEIGHT,
    data: { values: tokens },
    mark: {
      type: "line",
      interpolate: "step-after",
      color: COLOURS[HOLDS][0],
      strokeWidth: 1.5,
      point: { color: COLOURS[HOLDS][0], size: 22 },
    },
    encoding: {
      x: timeAxis("atMs", "time since the first grant, in ms"),
      y: {
        field: "token",
        type: "quantitative",
        title: ["fencing token", "minus the first"],
        axis: { tickCount: 4 },
      },
    },
  };
}

/** An axis without a title has no numbers either. */
function timeAxis(field: string, title: string | null): object {
  const axis = { tickCount: 8, ...title === null && { labels: false, ticks: false } };
  return { field, type: "quantitative", title, axis, scale: { nice: false, zero: true } };
}

const CONFIG = {
  font: "system-ui, sans-serif",
  title: { color: COLOURS.text[0] },
  axis: {
    labelColor: COLOURS.text[0],
    titleColor: COLOURS.text[0],
    titleFontWeight: "normal",
    gridColor: COLOURS.lines[0],
    domainColor: COLOURS.lines[0],
    tickColor: COLOURS.lines[0],
    labelFontSize: 12,
    titleFontSize: 12,
  },
  legend: { labelColor: COLOURS.text[0], labelFontSize: 12 },
  view: { stroke: COLOURS.lines[0] },
};

/** Leaves out a third of the file, which nobody can see. */
function shortened(svg: string): string {
  return svg.replaceAll(UNUSED, "").replaceAll(
    /\d+\.\d{3,}/g,
    (number) => `${+(+number).toFixed(2)}`,
  );
}

/** Adds the dark colours: an image has no other way to know what its reader prefers. */
function withDarkColours(svg: string): string {
  const rules = Object.values(COLOURS).flatMap(([light, dark]) =>
    ["fill", "stroke"].map((property) => `[${property}="${light}"]{${property}:${dark}}`)
  );
  const style = `<style>@media (prefers-color-scheme:dark){${rules.join("")}}</style>`;
  return svg.replace(/^<svg[^>]*>/, (tag) => tag + style);
}

function nameOf(worker: number): string {
  return `worker ${worker}`;
}
