/**
 * Runs workers under faults and judges what they recorded: `deno task faults`.
 *
 * @module
 */

// deno-lint-ignore-file no-console -- this is a command

import { writeFile } from "node:fs/promises";
import process from "node:process";
import { parseArgs } from "node:util";
import { seedOf } from "../processes/random.ts";
import { refuseInstall } from "../servers/find_apt.ts";
import { type ServerKind, serverSource } from "../servers/find.ts";
import { check } from "./checker.ts";
import type { History } from "./history.ts";
import { htmlReport } from "./html_report.ts";
import { textReport } from "./report.ts";
import { run, type RunOptions } from "./runner.ts";

const STRATEGIES: readonly History["strategy"][] = ["redis", "zookeeper", "file"];

const USAGE = `Usage: deno task faults [options]

  --strategy redis|zookeeper|file  where the locks live; redis by default
  --seed N                         draws the faults and what workers do; a new one by default
  --minutes M                      how long, 1 by default
  --faults a,b                     only these faults; "none" for none; all by default
  --workers N --lanes N --locks N  processes, calls of each at once, locks
  --report FILE                    writes an HTML page with a time line
  --history FILE                   writes what was recorded, in JSON
  --no-install                     installs no server, as HOLDFAST_NO_INSTALL=1 does
  --help                           prints this`;

const OPTIONS = {
  strategy: { type: "string" },
  seed: { type: "string" },
  minutes: { type: "string" },
  faults: { type: "string" },
  workers: { type: "string" },
  lanes: { type: "string" },
  locks: { type: "string" },
  report: { type: "string" },
  history: { type: "string" },
  "no-install": { type: "boolean" },
  help: { type: "boolean" },
} as const;

/** How long in ms to wait until what the dead have left is gone. */
const RESIDUE_BOUND_MS = 90_000;

interface Command {
  readonly options: RunOptions;
  readonly report: string | undefined;
  readonly history: string | undefined;
}

/** Null if only help is asked for; throws what is wrong. */
function readArguments(): Command | null {
  const { values } = parseArgs({ options: OPTIONS });
  if (values.help) return null;
  if (values["no-install"]) refuseInstall();
  const strategy = STRATEGIES.find((name) => name === (values.strategy ?? "redis"));
  if (strategy === undefined) throw new Error(`Unknown strategy "${values.strategy}"`);
  const sizes = (["workers", "lanes", "locks"] as const).flatMap((name) =>
    values[name] === undefined ? [] : [[name, positive(name, values[name])]]
  );
  const faults = values.faults === "none" ? [] : values.faults?.split(",");
  const options: RunOptions = {
    ...{ strategy, residueBoundMs: RESIDUE_BOUND_MS, onFault: progress() },
    seed: values.seed === undefined ? seedOf() : positive("seed", values.seed),
    durationMs: positive("minutes", values.minutes ?? "1") * 60_000,
    ...faults && { faults },
    ...Object.fromEntries(sizes),
  };
  return { options, report: values.report, history: values.history };
}

function positive(name: string, text: string): number {
  const value = Number(text);
  if (value > 0) return value;
  throw new Error(`'--${name}' must be a number above 0, not "${text}"`);
}

function progress(): NonNullable<RunOptions["onFault"]> {
  let startUs: number | undefined;
  return ({ atUs, untilUs = atUs, fault, target }, grants) => {
    startUs ??= atUs;
    const [at, took] = [(atUs - startUs) / 1e6, (untilUs - atUs) / 1e3];
    console.log(
      `${at.toFixed(1)} s: ${fault} on ${target}, ${took.toFixed(0)} ms; ${grants} grants`,
    );
  };
}

/** Resolves with the exit code. */
async function main(): Promise<number> {
  let command: Command | null;
  try {
    command = readArguments();
  } catch (error) {
    console.error(`${(error as Error).message}\n\n${USAGE}`);
    return 2;
  }
  if (command === null) {
    console.log(USAGE);
    return 0;
  }
  const { options, report, history: historyFile } = command;
  console.log(`--strategy ${options.strategy} --seed ${options.seed}`);
  if (options.strategy !== "file" && !await isThere(options.strategy)) return 1;
  const { history, problems, skipped } = await run(options);
  const verdict = check(history);
  console.log(textReport(history, verdict));
  if (report !== undefined) await writeFile(report, htmlReport(history, verdict));
  if (historyFile !== undefined) await writeFile(historyFile, JSON.stringify(history));
  for (const [fault, why] of Object.entries(skipped)) console.log(`skipped: ${fault}: ${why}`);
  for (const problem of problems) console.log(`problem: ${problem}`);
  return verdict.isGood && problems.length === 0 ? 0 : 1;
}

/** Looks for the server that the run will start; says what to install if there is none. */
async function isThere(kind: ServerKind): Promise<boolean> {
  try {
    await serverSource(kind);
    return true;
  } catch (error) {
    console.error((error as Error).message);
    return false;
  }
}

if (import.meta.main) process.exit(await main());
