/**
 * Prints the figures of two versions, and judges them.
 *
 * @module
 */
// deno-lint-ignore-file no-console -- this is a part of a command
import { median } from "../compare.ts";
import type { CallPath, OperationCost } from "./jobs.ts";
import type { Pair, RoundCost } from "./rounds.ts";

/** The greatest ratio of allocated bytes, new to old. */
const BYTES_LIMIT = 1.02;

const COUNTED = ["commands", "KEYS", "ARGV", "inner calls"];

/** Prints the counts of all operations; returns whether the new version needs no more than the old. */
export function reportCounts(counts: Pair<readonly OperationCost[]>): boolean {
  const rows = counts.new.map((cost) => {
    const old = counts.old.find(({ operation }) => operation === cost.operation)!;
    return { old, new: cost };
  });
  console.log("Counts per operation, old | new\n");
  printTable([
    ["operation", ...COUNTED],
    ...rows.map((row) => [row.new.operation, ...cells(row)]),
  ]);
  const excesses = rows.flatMap(excessesOf);
  for (const line of excesses) console.log(line);
  if (excesses.length === 0) console.log("The new version needs no more than the old in any row.");
  return excesses.length === 0;
}

function cells(row: Pair<OperationCost>): string[] {
  const [old, newer] = [figures(row.old), figures(row.new)];
  return old.map((figure, index) => `${figure} | ${newer[index]}`);
}

function figures({ commands, keys, args, calls }: OperationCost): number[] {
  return [commands, keys, args, calls.length];
}

/** KEYS and ARGV are judged together: both travel as arguments of the same command. */
function excessesOf({ old, new: newer }: Pair<OperationCost>): string[] {
  const judged: [what: string, old: number, newer: number][] = [
    ["commands", old.commands, newer.commands],
    ["arguments (KEYS and ARGV)", old.keys + old.args, newer.keys + newer.args],
    ["inner calls", old.calls.length, newer.calls.length],
  ];
  const lines = judged.filter(([, before, after]) => after > before).map(([what, before, after]) =>
    `MORE: "${newer.operation}" needs ${after} ${what}, the old version ${before}`
  );
  if (newer.calls.length > old.calls.length) {
    lines.push(`  old: ${old.calls.join(" ")}`, `  new: ${newer.calls.join(" ")}`);
  }
  return lines;
}

/** Prints the commands that the scripts called. */
export function reportCalls(counts: Pair<readonly OperationCost[]>): void {
  console.log("\nInner calls");
  for (const [index, { operation, calls }] of counts.new.entries()) {
    const old = counts.old[index]!.calls.join(" ");
    const newer = calls.join(" ");
    console.log(`\n${operation}\n  old: ${old}${old === newer ? " (new: the same)" : ""}`);
    if (old !== newer) console.log(`  new: ${newer}`);
  }
}

/** Prints bytes, CPU and server time per cycle; returns whether the bytes are within their limit. */
export function reportCycles(title: string, costs: readonly Pair<RoundCost>[]): boolean {
  const bytes = medians(costs, "bytes");
  const ratio = bytes.new / bytes.old;
  const isWithin = ratio <= BYTES_LIMIT;
  const verdict = isWithin ? `limit ${BYTES_LIMIT}` : `OVER its limit of ${BYTES_LIMIT}`;
  console.log(
    `${title}: bytes per cycle ${bytes.old.toFixed(0)} | ${bytes.new.toFixed(0)}, ` +
      `ratio ${ratio.toFixed(3)}, ${verdict}`,
  );
  for (const [figure, what] of [["cpuUs", "CPU"], ["serverUs", "scripts'"]] as const) {
    const time = medians(costs, figure);
    console.log(
      `${title}: ${what} µs per cycle ${time.old.toFixed(1)} | ${time.new.toFixed(1)}, ` +
        ratioOf(costs, figure),
    );
  }
  return isWithin;
}

function medians(costs: readonly Pair<RoundCost>[], figure: keyof RoundCost): Pair<number> {
  return {
    old: median(costs.map(({ old }) => old[figure])),
    new: median(costs.map((cost) => cost.new[figure])),
  };
}

/** Time is printed and not judged: by chance, the quartiles of equal versions may miss 1. */
function ratioOf(costs: readonly Pair<RoundCost>[], figure: keyof RoundCost): string {
  const ratios = costs.map((cost) => cost.new[figure] / cost.old[figure]).sort((a, b) => a - b);
  const [low, middle, high] = [0.25, 0.5, 0.75].map((part) => quantile(ratios, part)) as [
    number,
    number,
    number,
  ];
  const includesOne = low <= 1 && high >= 1;
  const side = high < 1 ? "lie below 1: the new version is faster" : "lie above 1: it is slower";
  return `ratio ${middle.toFixed(3)} in ${ratios.length} rounds, ` +
    `quartiles ${low.toFixed(3)} to ${high.toFixed(3)} ${includesOne ? "include 1" : side}`;
}

/** Interpolates between the neighbours in sorted values. */
function quantile(sorted: readonly number[], part: number): number {
  const place = (sorted.length - 1) * part;
  const below = sorted[Math.floor(place)]!;
  return below + (sorted[Math.ceil(place)]! - below) * (place % 1);
}

/** Prints the paths of one version, each with its number of frames, files and returns. */
export function reportPaths(version: string, paths: readonly CallPath[]): void {
  console.log(`\n${version}`);
  for (const { title, frames } of paths) {
    const files = frames.map(({ file }) => file);
    const stations = files.filter((file, index) => file !== files[index - 1]);
    const returns = stations.filter((file, index) => stations.indexOf(file) < index);
    const count = `${frames.length} frames in ${new Set(files).size} files`;
    console.log(`\n${title}: ${count}, back in a file that was left: ${returns.length}`);
    const width = Math.max(...files.map(({ length }) => length));
    for (const { name, file, isAsync } of frames) {
      console.log(`  ${file.padEnd(width)}   ${isAsync ? "await " : ""}${name}`);
    }
    if (returns.length > 0) console.log(`  back in: ${returns.join(", ")}`);
  }
}

function printTable(rows: readonly (readonly string[])[]): void {
  const widths = rows[0]!.map((_, column) => Math.max(...rows.map((row) => row[column]!.length)));
  for (const row of rows) {
    console.log(row.map((cell, column) => cell.padEnd(widths[column]!)).join("   ").trimEnd());
  }
  console.log();
}
