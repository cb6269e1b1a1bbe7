/**
 * A short run of workers under faults, with a fixed seed, for `deno task test`.
 *
 * @module
 */
import { assert, assertEquals } from "@std/assert";
import { writeFile } from "node:fs/promises";
import process from "node:process";
import { makeTempDirectory } from "../runtime/temporary_files.ts";
import { say } from "../processes/figures.ts";
import { check } from "./checker.ts";
import { textReport } from "./report.ts";
import { run, type RunOptions } from "./runner.ts";
import { scaled } from "../time.ts";

const SOAK = Boolean(process.env["HOLDFAST_SOAK"]);
/** The fixed seed; `deno task faults` draws new ones. */
const SEED = Number(process.env["HOLDFAST_SEED"] ?? 6);
const DURATION_MS = scaled(SOAK ? 120_000 : 4_000);
/** The servers may need this long, in ms, to remove everything of dead workers. */
const RESIDUE_BOUND_MS = 90_000;
/** The fewest grants that a run must have seen, even on a busy machine. */
const LEAST_GRANTS = 50;

/** Runs the workers, judges the record and fails on violations. A soak run ignores `faults` and `habits`. */
export async function shortRun(
  { strategy, faults, habits }: Pick<RunOptions, "strategy" | "faults" | "habits">,
): Promise<void> {
  const { history, problems } = await run({
    ...{ strategy, seed: SEED, durationMs: DURATION_MS, residueBoundMs: RESIDUE_BOUND_MS },
    ...!SOAK && faults && { faults },
    ...!SOAK && habits && { habits },
  });
  const verdict = check(history);
  const report = textReport(history, verdict);
  say(report.split("\n").slice(0, 3).join("\n"));
  assertEquals(problems, []);
  if (!verdict.isGood) {
    // Timing decides what happens: the seed alone may not show it again.
    const record = `${await makeTempDirectory()}/history.json`;
    await writeFile(record, JSON.stringify(history));
    throw new Error(`${report}\nThe record is in ${record}`);
  }
  assert(verdict.counts.grants >= LEAST_GRANTS, "there were hardly any grants");
  assert(verdict.counts.faults > 0);
}
