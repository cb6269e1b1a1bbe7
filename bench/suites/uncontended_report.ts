/**
 * Tables, plots and limits of the suite `uncontended`.
 *
 * @module
 */
import { CLIENTS, CONTENDERS } from "../contenders/all.ts";
import type { ClientName } from "../library/contender.ts";
import { type Figure, valuesOf } from "../library/figures.ts";
import type { Plot, Point } from "../library/plots.ts";
import { median, ratios } from "../library/statistics.ts";
import type { SuiteResult, Verdict } from "../library/suite.ts";
import { medianCell, quartilesCell, type Table } from "../library/tables.ts";

/** The measured quantities. */
export const MEASURES = {
  time: "µs per cycle",
  clientCpu: "client CPU µs per cycle",
  allocated: "bytes allocated per cycle",
  serverCpu: "server CPU µs per cycle",
  serverCommands: "server µs in commands per cycle",
  traffic: "bytes on the wire per cycle",
  commands: "commands per cycle",
} as const;

/** The greatest allowed ratio to the bare commands with one call in flight. */
const LIMIT = 1.5;
const DELAY = "added round trip ms";

/** The report of the figures. */
export function reportOf(figures: readonly Figure[]): SuiteResult {
  const delays = distinct(figures, DELAY);
  const calls = distinct(figures, "calls");
  return {
    tables: [
      ...delays.map((delay) => ratioTable(figures, delay, calls)),
      ...calls.map((count) => costTable(figures, count)),
    ],
    plots: delays.map((delay) => ratioPlot(figures, delay)),
    verdicts: CLIENTS.flatMap((client) => verdictOf(figures, client)),
    notes: [
      "A cycle is acquire and release of a lock that is free. `raw` is `SET NX PX` and a " +
      "compare-and-delete script with the same client: the fewest commands that make a lock. Each " +
      "call in flight uses a name of its own. All contenders run in one process, in interleaved " +
      "rounds; each round begins with another contender.",
      "Of the contenders, only holdfast issues fencing tokens and looks at a queue of waiters.",
    ],
    figures,
  };
}

function distinct(figures: readonly Figure[], key: string): number[] {
  return [...new Set(figures.map(({ at }) => Number(at[key])))];
}

function contendersOf(client: ClientName): string[] {
  return CONTENDERS.filter((contender) => contender.client === client).map(({ name }) => name);
}

/** The ratios of a contender to the bare commands, round by round. */
function ratiosOf(figures: readonly Figure[], contender: string, at: Figure["at"]): number[] {
  const measure = MEASURES.time;
  return ratios(
    valuesOf(figures, { contender, measure, at }),
    valuesOf(figures, { contender: "raw", measure, at }),
  );
}

function ratioTable(figures: readonly Figure[], delay: number, calls: readonly number[]): Table {
  const head = ["client", "contender", ...calls.flatMap((n) => [`µs, ${n} in flight`, "× raw"])];
  const rows = CLIENTS.flatMap((client) =>
    contendersOf(client).map((contender) => [
      client,
      contender,
      ...calls.flatMap((count) => {
        const at = { client, calls: count, [DELAY]: delay };
        const times = valuesOf(figures, { contender, measure: MEASURES.time, at });
        return [medianCell(times), quartilesCell(ratiosOf(figures, contender, at))];
      }),
    ])
  );
  return {
    title: delay === 0 ? "Time per cycle, loopback" : `Time per cycle, ${delay} ms of round trip`,
    note: "Medians of the rounds; ratios to `raw` with their quartiles.",
    rows: [head, ...rows],
  };
}

function costTable(figures: readonly Figure[], calls: number): Table {
  const { time: _, ...costs } = MEASURES;
  const rows = CLIENTS.flatMap((client) =>
    contendersOf(client).map((contender) => [
      client,
      contender,
      ...Object.values(costs).map((measure) =>
        medianCell(valuesOf(figures, { contender, measure, at: { client, calls, [DELAY]: 0 } }))
      ),
    ])
  );
  return {
    title: `Cost per cycle with ${calls} in flight, loopback`,
    rows: [["client", "contender", ...Object.values(costs)], ...rows],
  };
}

function ratioPlot(figures: readonly Figure[], delay: number): Plot {
  const points: Point[] = figures
    .filter(({ contender, measure, at }) =>
      contender !== "raw" && measure === MEASURES.time && at[DELAY] === delay
    )
    .map(({ contender, at }) => ({
      series: contender,
      x: `${at["calls"]}`,
      y: median(ratiosOf(figures, contender, at)),
      panel: String(at["client"]),
    }));
  return {
    name: delay === 0 ? "uncontended" : `uncontended-${delay}-ms`,
    title: `Acquire and release, × raw${delay === 0 ? "" : `, ${delay} ms of round trip`}`,
    kind: "bars",
    x: "calls in flight",
    y: "× raw",
    points,
  };
}

function verdictOf(figures: readonly Figure[], client: ClientName): Verdict[] {
  const at = { client, calls: 1, [DELAY]: 0 };
  const title = `acquire and release with ${client}, 1 in flight, × raw`;
  return [{ title, value: median(ratiosOf(figures, "holdfast", at)), limit: LIMIT }];
}
