/**
 * The outcomes of trials as a table.
 *
 * @module
 */
import { median } from "../../processes/figures.ts";
import type { Fault, Outcome } from "./trials.ts";

type Outcomes = ReadonlyMap<Fault, readonly Outcome[]>;

const HEAD = [
  "package",
  "overlaps, frozen",
  "loss reported, frozen",
  "overlaps, black hole",
  "loss reported, black hole",
  "failed acquires, lost reply",
  "locks left behind, lost reply",
];

/** A table of overlaps, leftover locks and the delay of loss reports, by package. */
export function table(packages: ReadonlyMap<string, Outcomes>): string {
  const rows = [...packages].map(([name, of]) => [
    name,
    ...(["pause", "black-hole"] as const).flatMap((fault) => {
      const outcomes = of.get(fault) ?? [];
      return [overlaps(outcomes), lateness(outcomes)];
    }),
    ...leaks(of.get("lost-reply") ?? []),
  ]);
  const line = (cells: readonly string[]) => `| ${cells.join(" | ")} |`;
  return [line(HEAD), line(HEAD.map(() => "---")), ...rows.map(line)].join("\n");
}

function overlaps(outcomes: readonly Outcome[]): string {
  const count = outcomes.filter(({ overlaps }) => overlaps > 0).length;
  const ms = Math.max(0, ...outcomes.map(({ overlapMs }) => overlapMs));
  return `${count} of ${outcomes.length}${count > 0 ? `, up to ${inMs(ms)}` : ""}`;
}

function lateness(outcomes: readonly Outcome[]): string {
  const reportedMs = outcomes.flatMap(({ lateMs }) => typeof lateMs === "number" ? [lateMs] : []);
  const never = outcomes.filter(({ lateMs }) => lateMs === null).length;
  const texts = [
    ...never > 0 ? [`never (${never} of ${outcomes.length})`] : [],
    ...reportedMs.length > 0
      ? [
        median(reportedMs) < 0
          ? `${inMs(-median(reportedMs))} before`
          : `after ${inMs(median(reportedMs))}`,
      ]
      : [],
  ];
  return texts.join(", ");
}

function leaks(outcomes: readonly Outcome[]): [failed: string, left: string] {
  const failed = outcomes.filter(({ isFailed }) => isFailed).length;
  const left = outcomes.filter(({ leftMs }) => leftMs > 0);
  const ms = Math.max(0, ...left.map(({ leftMs }) => leftMs));
  return [
    `${failed} of ${outcomes.length}`,
    `${left.length}${left.length > 0 ? `, for ${inMs(ms)} more` : ""}`,
  ];
}

function inMs(ms: number): string {
  return `${ms < 10 ? Math.round(ms * 10) / 10 : Math.round(ms).toLocaleString("en")} ms`;
}
