/**
 * Tables, plots and limits of the suite `contended`.
 *
 * @module
 */
import { CLIENTS, LOCKS } from "../contenders/all.ts";
import type { ClientName } from "../library/contender.ts";
import { type Figure, matches, valuesOf } from "../library/figures.ts";
import type { Plot, Point } from "../library/plots.ts";
import { median, ratios } from "../library/statistics.ts";
import type { SuiteResult, Verdict } from "../library/suite.ts";
import { medianCell, number, quartilesCell, type Table } from "../library/tables.ts";
import { HANDOFF_US, PING_PONG } from "./handoff.ts";

/** The measured quantities. */
export const MEASURES = {
  rate: "grants per second",
  handoff: "µs from release to next grant",
  held: "% of the time held",
  commands: "commands per grant",
  inversions: "% of grants out of order",
  least: "% of an equal share for the least-served waiter",
  p50: "wait p50, ms",
  p99: "wait p99, ms",
} as const;

const LIMITS = { handoff: 2.2, growth: 1.3 };
const HOLD = "hold ms";

/** The report of the figures. */
export function reportOf(figures: readonly Figure[]): SuiteResult {
  const counts = distinct(figures, "waiters");
  const processes = distinct(figures, "processes");
  const holds = distinct(figures, HOLD);
  const places = processes.flatMap((p) => holds.map((hold) => ({ processes: p, [HOLD]: hold })));
  return {
    tables: [
      handoffTable(figures, counts),
      peerTable(figures, counts, places),
      ...counts.flatMap((waiters) => places.map((place) => table(figures, { ...place, waiters }))),
    ],
    plots: [ratePlot(figures, processes), handoffPlot(figures, counts)],
    verdicts: CLIENTS.flatMap((client) => verdictsOf(figures, client, counts)),
    notes: [
      "Each waiter acquires the lock, holds it, releases it, and asks again at once. Packages that " +
      "poll do so every 5 ms here, more often than by default, because it gives them the most grants; " +
      "they are measured with up to 100 waiters.",
      "Without a queue, a waiter that released the lock often takes it again at once, while the others " +
      "sleep: with few waiters, and no time held, that gives more grants per second. The columns on " +
      "order, on the least-served waiter and on the longest waits show its price.",
      "A grant is out of order if a call that was made at least 5 ms later was granted first. " +
      "The first calls do not count: all waiters make them at once.",
      "Ping-pong is the least work that wakes another client: two clients of one process wake each " +
      "other by a message in turns, and each turn also sends one `SET NX PX`.",
    ],
    figures,
  };
}

function distinct(figures: readonly Figure[], key: string): number[] {
  const values = figures.flatMap(({ at }) => at[key] === undefined ? [] : [Number(at[key])]);
  return [...new Set(values)].sort((a, b) => a - b);
}

function table(figures: readonly Figure[], at: Figure["at"]): Table {
  const measures = Object.values(MEASURES);
  const rows = LOCKS.flatMap(({ name, client }) => {
    const cells = measures.map((measure) =>
      medianCell(valuesOf(figures, { contender: name, measure, at: { ...at, client } }))
    );
    return cells.every((cell) => cell === "–") ? [] : [[client, name, ...cells]];
  });
  const { waiters, processes, [HOLD]: hold } = at;
  const place = processes === 1 ? "1 process" : `${processes} processes`;
  return {
    title: `${Number(waiters).toLocaleString("en")} waiters in ${place}, held for ${hold} ms`,
    rows: [["client", "contender", ...measures], ...rows],
  };
}

function handoffRatios(figures: readonly Figure[], client: ClientName, waiters: number): number[] {
  const measure = HANDOFF_US;
  return ratios(
    valuesOf(figures, { contender: "holdfast", measure, at: { client, waiters } }),
    valuesOf(figures, { contender: PING_PONG, measure, at: { client } }),
  );
}

function handoffTable(figures: readonly Figure[], counts: readonly number[]): Table {
  const head = ["client", ...counts.map((n) => `${n.toLocaleString("en")} waiters, × ping-pong`)];
  const rows = CLIENTS.map((client) => [
    client,
    ...counts.map((waiters) => quartilesCell(handoffRatios(figures, client, waiters))),
  ]);
  return {
    title: "Handoff of holdfast between two clients of one process",
    note: "Ratios to the ping-pong of the same round, with their quartiles.",
    rows: [head, ...rows],
  };
}

/** Our grants per second beside those of the best other package, whatever its client. */
function peerTable(
  figures: readonly Figure[],
  counts: readonly number[],
  places: readonly Figure["at"][],
): Table {
  const rateOf = (contender: string, at: Figure["at"]) =>
    median(valuesOf(figures, { contender, measure: MEASURES.rate, at }));
  const others = LOCKS.filter(({ has }) => !has.queue);
  const few = counts.filter((waiters) => waiters <= 100);
  const rows = few.flatMap((waiters) =>
    places.map((place) => {
      const best = Math.max(...others.map(({ name, client }) => {
        return rateOf(name, { ...place, waiters, client });
      }));
      return [
        `${waiters} waiters, ${place["processes"]} × process, held for ${place[HOLD]} ms`,
        number(best),
        ...CLIENTS.map((client) =>
          number(rateOf("holdfast", { ...place, waiters, client }) / best)
        ),
      ];
    })
  );
  const head = ["scene", "best other package", ...CLIENTS.map((c) => `holdfast, ${c}, × best`)];
  return { title: "Grants per second beside the best other package", rows: [head, ...rows] };
}

function ratePlot(figures: readonly Figure[], processes: readonly number[]): Plot {
  const wanted = { measure: MEASURES.rate, at: { [HOLD]: 0 } };
  const points: Point[] = figures.filter((figure) => matches(figure, wanted))
    .map(({ contender, at, values }) => ({
      series: `${contender}, ${at["client"]}`,
      x: Number(at["waiters"]),
      y: median(values),
      panel: at["processes"] === 1 ? "1 process" : `${at["processes"]} processes`,
    }));
  return {
    name: "contended",
    title: processes.length > 0 ? "Grants per second, released at once" : "No figures",
    kind: "lines",
    x: "waiters",
    y: MEASURES.rate,
    log: { x: true, y: true },
    points,
  };
}

function handoffPlot(figures: readonly Figure[], counts: readonly number[]): Plot {
  return {
    name: "handoff",
    title: "Handoff in one process, × ping-pong",
    kind: "lines",
    x: "waiters",
    y: "× ping-pong",
    log: { x: true },
    points: CLIENTS.flatMap((client) =>
      counts.map((waiters) => ({
        series: `holdfast, ${client}`,
        x: waiters,
        y: median(handoffRatios(figures, client, waiters)),
      }))
    ),
  };
}

function verdictsOf(
  figures: readonly Figure[],
  client: ClientName,
  counts: readonly number[],
): Verdict[] {
  const handoffs = counts.filter((waiters) => waiters <= 1_000).map((waiters) => ({
    title: `handoff with ${client}, ${waiters.toLocaleString("en")} waiters, × ping-pong`,
    value: median(handoffRatios(figures, client, waiters)),
    limit: LIMITS.handoff,
  }));
  const few = counts.includes(10) ? 10 : counts[0]!;
  const growths = counts.filter((waiters) => waiters >= 1_000).map((waiters) => ({
    title: `handoff with ${client}, ${waiters.toLocaleString("en")} waiters, × ${few} waiters`,
    value: median(ratios(
      handoffRatios(figures, client, waiters),
      handoffRatios(figures, client, few),
    )),
    limit: LIMITS.growth,
  }));
  return [...handoffs, ...growths];
}
