/**
 * `deno task faults`: runs workers under faults and judges what they recorded.
 *
 * @module
 */

// deno-lint-ignore-file no-console -- this is a command

import { existsSync } from "node:fs";
import { writeFile } from "node:fs/promises";
import { resolve } from "node:path";
import process from "node:process";
import { pathToFileURL } from "node:url";
import { parseArgs } from "node:util";
import { seedOf } from "../processes/random.ts";
import { refuseInstall } from "../servers/find_apt.ts";
import { type ServerKind, serverSource } from "../servers/find.ts";
import { check } from "./checker.ts";
import type { History } from "./history.ts";
import { htmlReport } from "./html_report.ts";
import { textReport } from "./report.ts";
import { run, type RunOptions, UnknownFault } from "./runner.ts";
import { HABITS, type Habits, WORKER_PROGRAM } from "./recording_workers.ts";

const STRATEGIES: readonly History["strategy"][] = ["redis", "zookeeper", "file"];

const USAGE = `Usage: deno task faults [options]

Runs worker processes that take locks while faults happen, then checks the record of the run.

  --strategy redis|zookeeper|file  the locks under test (redis by default)
  --seed N                         the seed of the faults and the workers (a new one by default)
  --minutes M                      the length of the run (1 by default)
  --faults a,b                     only these faults, or "none" (all by default)
  --workers N --lanes N --locks N  the numbers of processes, of concurrent calls in each, of locks
  --habits a=N,b=N                 how many of a thousand calls do something, as in recording_workers.ts
  --beside OLD                     every second worker runs the code of an older checkout in this folder
  --report FILE                    also writes the report as an HTML page with a time line
  --history FILE                   also writes the record of the run, as JSON
  --no-install                     never installs a missing server, as HOLDFAST_NO_INSTALL=1
  --help                           prints this text

Exits with 0 if there is no violation, 2 if an argument is wrong, 1 otherwise.`;

/** The last words about a wrong argument. */
const HINT = "(--help lists the options)";

const OPTIONS = {
  strategy: { type: "string" },
  seed: { type: "string" },
  minutes: { type: "string" },
  faults: { type: "string" },
  workers: { type: "string" },
  lanes: { type: "string" },
  locks: { type: "string" },
  habits: { type: "string" },
  beside: { type: "string" },
  report: { type: "string" },
  history: { type: "string" },
  "no-install": { type: "boolean" },
  help: { type: "boolean" },
} as const;

/** How long in ms to wait until the servers have removed everything of dead workers. */
const RESIDUE_BOUND_MS = 90_000;

interface Command {
  readonly options: RunOptions;
  readonly report: string | undefined;
  readonly history: string | undefined;
}

/**
 * Reads the command line; null for `--help`.
 *
 * @throws {Error} If an argument is wrong.
 */
function readArguments(): Command | null {
  const { values } = parseArgs({ options: OPTIONS });
  if (values.help) return null;
  if (values["no-install"]) refuseInstall();
  const strategy = STRATEGIES.find((name) => name === (values.strategy ?? "redis"));
  if (strategy === undefined) {
    throw new Error(
      `Unknown strategy "${values.strategy}": choose one of ${STRATEGIES.join(", ")}`,
    );
  }
  const sizes = (["workers", "lanes", "locks"] as const).flatMap((name) =>
    values[name] === undefined ? [] : [[name, whole(name, values[name])]]
  );
  const faults = values.faults === "none" ? [] : values.faults?.split(",");
  const options: RunOptions = {
    ...{ strategy, residueBoundMs: RESIDUE_BOUND_MS, onFault: progress() },
    seed: values.seed === undefined ? seedOf() : whole("seed", values.seed),
    durationMs: positive("minutes", values.minutes ?? "1") * 60_000,
    ...faults && { faults },
    ...values.habits !== undefined && { habits: habitsOf(values.habits) },
    ...values.beside !== undefined && { beside: checkoutAt(values.beside) },
    ...Object.fromEntries(sizes),
  };
  return { options, report: values.report, history: values.history };
}

function habitsOf(text: string): Partial<Habits> {
  return Object.fromEntries(
    text.split(",").map((part) => {
      const [habit = "", number = ""] = part.split("=");
      if (habit in HABITS && number !== "" && Number(number) >= 0) return [habit, Number(number)];
      const known = Object.keys(HABITS).join(", ");
      throw new Error(`Cannot use --habits "${part}": give numbers, as in shares=100, of ${known}`);
    }),
  );
}

function checkoutAt(folder: string): URL {
  const checkout = pathToFileURL(`${resolve(folder)}/`);
  if (existsSync(new URL(WORKER_PROGRAM, checkout))) return checkout;
  throw new Error(`Cannot use --beside "${folder}": it has no ${WORKER_PROGRAM}`);
}

function positive(name: string, text: string): number {
  const value = Number(text);
  if (value > 0 && value < Infinity) return value;
  throw new Error(`Cannot use --${name} "${text}": give a number above 0`);
}

function whole(name: string, text: string): number {
  const value = Number(text);
  if (value > 0 && Number.isSafeInteger(value)) return value;
  throw new Error(`Cannot use --${name} "${text}": give a whole number above 0`);
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
    return refuse(error as Error);
  }
  if (command === null) {
    console.log(USAGE);
    return 0;
  }
  const { strategy } = command.options;
  if (strategy !== "file" && !await isThere(strategy)) return 1;
  try {
    return await runAndJudge(command);
  } catch (error) {
    if (error instanceof UnknownFault) return refuse(error);
    throw error;
  }
}

/** Says in one line what is wrong with the arguments; returns the exit code. */
function refuse({ message }: Error): number {
  console.error(`${message.split("\n")[0]} ${HINT}`);
  return 2;
}

async function runAndJudge({ options, report, history: historyFile }: Command): Promise<number> {
  console.log(`--strategy ${options.strategy} --seed ${options.seed}`);
  const { history, problems, skipped } = await run(options);
  const verdict = check(history);
  console.log(textReport(history, verdict));
  if (report !== undefined) await writeFile(report, htmlReport(history, verdict));
  if (historyFile !== undefined) await writeFile(historyFile, JSON.stringify(history));
  for (const [fault, why] of Object.entries(skipped)) console.log(`skipped: ${fault}: ${why}`);
  for (const problem of problems) console.log(`problem: ${problem}`);
  return verdict.isGood && problems.length === 0 ? 0 : 1;
}

/** Whether the server for the run was found; otherwise prints what to install. */
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
