/**
 * The table and the plot of the benchmark that README shows, from the records in `docs/bench/`.
 *
 * @module
 */
import { readFile, writeFile } from "node:fs/promises";
import type { Figure, Place } from "./library/figures.ts";
import { valuesOf } from "./library/figures.ts";
import type { SuiteRecord } from "./library/record.ts";
import { median, ratios } from "./library/statistics.ts";
import { number, rowsText } from "./library/tables.ts";
import { MEASURES as CONTENDED } from "./suites/contended_report.ts";
import { MEASURES as IDLE } from "./suites/idle.ts";
import { HOLE } from "./suites/loss.ts";
import { MEASURES as UNCONTENDED } from "./suites/uncontended_report.ts";

/** The marks around the text that {@linkcode updateSummary} writes. */
export const MARKS = { begin: "<!-- bench: begin -->", end: "<!-- bench: end -->" } as const;

const PACKAGES = ["holdfast", "redlock", "redis-semaphore", "redlock-universal"];

/** A row: the same measure of each package, in one or more places. */
interface Row {
  readonly title: string;
  readonly suite: string;
  readonly measure: string;
  readonly places: readonly Place[];
  /** Whether the cells are ratios to the bare commands. */
  readonly isRatio?: boolean;
}

const CALLS = [1, 8, 64];
const CROWD = { client: "ioredis", waiters: 100, processes: 4, "hold ms": 1 };

function cycles(client: string, delayMs: number): Row {
  const where = delayMs === 0 ? "" : `, ${delayMs} ms away`;
  return {
    title: `acquire + release with ${client}${where}, ${
      CALLS.join(" / ")
    } in flight, × bare commands`,
    suite: "uncontended",
    measure: UNCONTENDED.time,
    places: CALLS.map((calls) => ({ client, calls, "added round trip ms": delayMs })),
    isRatio: true,
  };
}

function crowd(title: string, measure: string): Row {
  return {
    title: `100 waiters in 4 processes, 1 ms each: ${title}`,
    suite: "contended",
    measure,
    places: [CROWD],
  };
}

const ROWS: readonly Row[] = [
  cycles("ioredis", 0),
  cycles("node-redis", 0),
  cycles("ioredis", 1),
  crowd("grants per second", CONTENDED.rate),
  crowd("commands per grant", CONTENDED.commands),
  crowd("longest waits (p99), ms", CONTENDED.p99),
  crowd("grants out of order, %", CONTENDED.inversions),
  {
    title: "50 idle waiters: commands per second",
    suite: "idle",
    measure: IDLE.commands,
    places: [{ client: "ioredis", waiters: 50 }],
  },
  {
    title: "black hole: ms from the loss to the holder's signal (negative: before it)",
    suite: "loss",
    measure: HOLE.late,
    places: [{ client: "ioredis", fault: "black hole" }],
  },
];

/** The text for README. */
export function summaryOf(records: readonly SuiteRecord[]): string {
  const suites = new Map(records.map((record) => [record.suite, record]));
  const rows = ROWS.map(({ title, suite, ...row }) => {
    const figures = suites.get(suite)?.figures ?? [];
    return [title, ...PACKAGES.map((contender) => cellOf(figures, row, contender))];
  });
  const commands = [...new Set(ROWS.map(({ suite }) => suite))]
    .flatMap((suite) => suites.get(suite)?.command ?? [])
    .map((command) => `\`${command}\``);
  return [
    `Medians of ${commands.join(", ")} (${machineOf(records)}):`,
    rowsText([["", ...PACKAGES], ...rows]),
    "![Grants per second by number of waiters](docs/bench/contended.svg)",
  ].join("\n\n");
}

function cellOf(
  figures: readonly Figure[],
  { places, measure, isRatio = false }: Omit<Row, "title" | "suite">,
  contender: string,
): string {
  const cells = places.map((at) => {
    const values = valuesOf(figures, { contender, measure, at });
    const bare = isRatio ? valuesOf(figures, { contender: "raw", measure, at }) : [];
    return number(median(isRatio ? ratios(values, bare) : values));
  });
  return cells.every((cell) => cell === "–") ? "–" : cells.join(" / ");
}

function machineOf([first]: readonly SuiteRecord[]): string {
  return first === undefined ? "nothing measured" : first.machine.cpu;
}

/** Replaces the text between the marks of a file. */
export async function updateSummary(file: string, records: readonly SuiteRecord[]): Promise<void> {
  const text = await readFile(file, "utf8");
  const [begin, end] = [text.indexOf(MARKS.begin), text.indexOf(MARKS.end)];
  if (begin === -1 || end < begin) throw new Error(`Cannot update ${file}: it has no marks`);
  const head = text.slice(0, begin + MARKS.begin.length);
  await writeFile(file, `${head}\n\n${summaryOf(records)}\n\n${text.slice(end)}`);
}
