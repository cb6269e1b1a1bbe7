/**
 * Plots of figures, as SVG.
 *
 * @module
 */
import { parse, View } from "vega";
import { compile, type TopLevelSpec } from "vega-lite";

/** A point of a plot. */
export interface Point {
  /** The line or the bar that it belongs to. */
  readonly series: string;
  readonly x: number | string;
  readonly y: number;
  /** The picture beside others that it belongs to. */
  readonly panel?: string;
}

/** A plot with one line, or one bar in each group, per series. */
export interface Plot {
  /** The name of its file, without `.svg`. */
  readonly name: string;
  readonly title: string;
  readonly kind: "lines" | "bars";
  readonly x: string;
  readonly y: string;
  /** Whether the axes are logarithmic. */
  readonly log?: { readonly x?: boolean; readonly y?: boolean };
  readonly points: readonly Point[];
}

const WIDTH = 360;
const HEIGHT = 220;
/** No name of a series is longer, in pixels. */
const LABEL_LIMIT = 400;

/** Draws a plot. */
export async function svgOf(plot: Plot): Promise<string> {
  const { spec } = compile(specOf(plot), { logger: SILENT });
  const view = new View(parse(spec), { renderer: "none" });
  try {
    return `${await view.toSVG()}\n`;
  } finally {
    view.finalize();
  }
}

/** Vega-Lite warns of empty domains, which an empty plot shows anyway. */
const SILENT = {
  level: () => SILENT,
  error: () => SILENT,
  warn: () => SILENT,
  info: () => SILENT,
  debug: () => SILENT,
} as never;

function specOf(plot: Plot): TopLevelSpec {
  const { title, points } = plot;
  const hasPanels = points.some(({ panel }) => panel !== undefined);
  const encoding = plot.kind === "lines" ? linesOf(plot) : barsOf(plot);
  const panels = { column: { field: "panel", type: "nominal", title: null } };
  return {
    title,
    width: WIDTH,
    height: HEIGHT,
    background: "white",
    data: { values: points.filter(({ y }) => Number.isFinite(y)) },
    mark: plot.kind === "lines" ? { type: "line", point: true } : { type: "bar" },
    encoding: { ...encoding, ...hasPanels && panels },
  } as TopLevelSpec;
}

function linesOf({ x, y, log = {} }: Plot): object {
  return {
    x: { field: "x", type: "quantitative", title: x, scale: scaleOf(log.x) },
    y: { field: "y", type: "quantitative", title: y, scale: scaleOf(log.y) },
    color: colour(),
  };
}

/** The bars keep the order in which their points are given. */
function barsOf({ x, y, log = {} }: Plot): object {
  return {
    x: { field: "x", type: "nominal", title: x, sort: null, axis: { labelAngle: 0 } },
    xOffset: { field: "series", sort: null },
    y: { field: "y", type: "quantitative", title: y, scale: scaleOf(log.y) },
    color: colour(),
  };
}

function colour(): object {
  const legend = { labelLimit: LABEL_LIMIT };
  return { field: "series", type: "nominal", title: null, sort: null, legend };
}

function scaleOf(isLog = false): object {
  return isLog ? { type: "log", nice: true } : { zero: true };
}
