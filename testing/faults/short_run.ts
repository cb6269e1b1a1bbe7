/**
 * A run of workers under faults for a test: short, always of the same seed.
 *
 * @module
 */
import { assert, assertEquals } from "@std/assert";
import process from "node:process";
import { say } from "../processes/figures.ts";
import { check } from "./checker.ts";
import { textReport } from "./report.ts";
import { run, type RunOptions } from "./runner.ts";

const SOAK = process.env["HOLDFAST_SOAK"] !== undefined;
/** `deno task faults` draws others. */
const SEED = Number(process.env["HOLDFAST_SEED"] ?? 6);
const DURATION_MS = SOAK ? 120_000 : 7_000;
/** The servers take their time to let go of the dead. */
const RESIDUE_BOUND_MS = 90_000;
/** What a short run must have seen at least, on however busy a machine. */
const LEAST_GRANTS = 50;

/** Runs it, all faults in the soak, and judges it. */
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
  assert(verdict.isGood, report);
  assert(verdict.counts.grants >= LEAST_GRANTS, "there was hardly any work");
  assert(verdict.counts.faults > 0);
}
