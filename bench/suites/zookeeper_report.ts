/**
 * Tables, plots and limits of the suite `zookeeper`.
 *
 * @module
 */
import type { Programs } from "../../testing/interop/peer_programs.ts";
import { type Figure, valuesOf } from "../library/figures.ts";
import type { Plot } from "../library/plots.ts";
import { median, ratios } from "../library/statistics.ts";
import type { SuiteResult } from "../library/suite.ts";
import { medianCell, quartilesCell, type Table } from "../library/tables.ts";

/** The measured quantities. */
export const US = "µs per acquire and release";
/** The name of the bare requests among contenders. */
export const REQUESTS = "fewest requests";

/** The greatest allowed ratio to the fewest requests. */
const LIMIT = 1.25;
const LIBRARIES = ["holdfast", "curator", "kazoo"];

/** The report of the figures. */
export function reportOf(
  figures: readonly Figure[],
  programs: Programs,
  skip: string | undefined,
): SuiteResult {
  const contended = figures.filter(({ at }) => at["contenders"] !== undefined);
  const clusters = distinct(contended, "servers");
  const requests = requestRatios(figures);
  return {
    tables: [requestTable(figures), ...clusters.map((servers) => table(contended, servers))],
    plots: [plot(contended)],
    verdicts: [
      {
        title: "acquire and release, × the fewest requests",
        value: median(requests),
        limit: LIMIT,
      },
    ],
    notes: [
      "Each library is in a process of its own with one session. Its contenders are threads in Curator " +
      "and kazoo, and calls here. kazoo is measured with up to 100.",
      "The fewest requests are a create, a list of the siblings in the same tick, and a delete, made by the " +
      "client package. Our adapter makes their bytes faster, so a ratio can be below 1.",
      ...skip === undefined ? [] : [`Three servers are left out: ${skip}.`],
    ],
    figures,
    versions: Object.fromEntries(
      Object.entries(programs).map(([name, { line }]) => [name, `(${line})`]),
    ),
  };
}

function distinct(figures: readonly Figure[], key: string): number[] {
  return [...new Set(figures.map(({ at }) => Number(at[key])))].sort((a, b) => a - b);
}

/** Only the figures of one process have no number of contenders. */
function requestRatios(figures: readonly Figure[]): number[] {
  const alone = figures.filter(({ at }) => at["contenders"] === undefined);
  return ratios(
    valuesOf(alone, { contender: "holdfast" }),
    valuesOf(alone, { contender: REQUESTS }),
  );
}

function requestTable(figures: readonly Figure[]): Table {
  const alone = figures.filter(({ at }) => at["contenders"] === undefined);
  return {
    title: "Without contention, in one process, one server",
    rows: [
      ["contender", US, `× ${REQUESTS}`],
      [
        "holdfast",
        medianCell(valuesOf(alone, { contender: "holdfast" })),
        quartilesCell(requestRatios(figures)),
      ],
      [REQUESTS, medianCell(valuesOf(alone, { contender: REQUESTS })), "1.00"],
    ],
  };
}

function table(figures: readonly Figure[], servers: number): Table {
  const counts = distinct(figures, "contenders");
  const timesOf = (contender: string, contenders: number) =>
    valuesOf(figures, { contender, measure: US, at: { servers, contenders } });
  const rows = LIBRARIES.map((contender) => [
    contender,
    ...counts.flatMap((contenders) => [
      medianCell(timesOf(contender, contenders)),
      quartilesCell(ratios(timesOf("holdfast", contenders), timesOf(contender, contenders))),
    ]),
  ]);
  const head = counts.flatMap((count) => [
    `µs, contenders: ${count.toLocaleString("en")}`,
    "holdfast / this",
  ]);
  return {
    title: servers === 1 ? "One server" : `${servers} servers`,
    note: "Medians of the rounds; the ratios of our lock to the others with their quartiles.",
    rows: [["library", ...head], ...rows],
  };
}

function plot(figures: readonly Figure[]): Plot {
  return {
    name: "zookeeper",
    title: "ZooKeeper: acquire and release",
    kind: "lines",
    x: "contenders",
    y: US,
    log: { x: true, y: true },
    points: figures.map(({ contender, at, values }) => ({
      series: contender,
      x: Number(at["contenders"]),
      y: median(values),
      panel: at["servers"] === 1 ? "1 server" : `${at["servers"]} servers`,
    })),
  };
}
