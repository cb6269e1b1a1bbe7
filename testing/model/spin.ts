/**
 * Runs Spin: translates the model, compiles and runs the search, and reads counterexamples.
 *
 * @module
 */
import { copyFile } from "node:fs/promises";
import { text } from "node:stream/consumers";
import { fileURLToPath } from "node:url";
import { makeTempDirectory } from "../runtime/temporary_files.ts";
import { spawnProcess } from "../runtime/processes.ts";
import { runCommand } from "../servers/command.ts";
import { openLifeline } from "../servers/guarded_process.ts";

const BUILD_BOUND_MS = 600_000;
const SHOW_BOUND_MS = 60_000;
const MEMORY_LIMIT_MB = 4_000;

/** A file of this folder. */
export type Model = "queue.pml" | "modes.pml";

/** A search of a model. */
export interface SearchOptions {
  readonly model: Model;
  /** Definitions, such as `B_CUT=1`. */
  readonly definitions: readonly string[];
  /** Whether to search for clients that wait forever, instead of broken assertions. */
  readonly isLiveness: boolean;
  /** Whether to search in breadth: finds the shortest counterexample, but takes more memory. */
  readonly isBreadthFirst: boolean;
  /** Whether to compile with optimisation, which pays off for long searches. */
  readonly isOptimized: boolean;
  /** The time limit of the search, in ms. */
  readonly boundMs: number;
}

/** The result of a search. */
export interface SearchResult {
  readonly errors: number;
  readonly states: number;
  /** False if it ran out of time or memory before it had seen all states. */
  readonly isComplete: boolean;
  /** The assertion that failed, in Spin's words. */
  readonly problem: string | undefined;
  /** The counterexample, step by step. */
  readonly steps: readonly string[];
}

/** Names the programs that are missing; undefined if none is. */
export async function missingTools(): Promise<string | undefined> {
  const probes = [["spin", "-V"], ["gcc", "--version"]];
  const results = await Promise.all(probes.map((probe) => runCommand(probe, BUILD_BOUND_MS)));
  const missing = probes.filter((_, i) => !results[i]!.success).map(([program]) => program);
  if (missing.length === 0) return undefined;
  const programs = missing.join(" and ");
  return `Cannot run the model without ${programs} (Debian and Ubuntu: apt-get install spin gcc)`;
}

/**
 * Searches the states of the model, in a temporary directory.
 *
 * @throws {Error} If the model does not compile or the search crashes.
 */
export async function search(options: SearchOptions): Promise<SearchResult> {
  const directory = await makeTempDirectory();
  await using _removal = openLifeline({ remove: directory });
  const { model } = options;
  await copyFile(fileURLToPath(new URL(model, import.meta.url)), `${directory}/${model}`);
  await build(options, directory);
  const output = await runSearch(options, directory);
  const { errors, ...rest } = readResult(output);
  return { errors, ...rest, steps: errors > 0 ? await replay(options, directory) : [] };
}

async function build(options: SearchOptions, cwd: string): Promise<void> {
  const kind = options.isLiveness ? ["-DNFAIR=4"] : ["-DSAFETY", "-DNOCLAIM"];
  const order = options.isBreadthFirst ? ["-DBFS"] : [];
  const limits = ["-DCOLLAPSE", `-DMEMLIM=${MEMORY_LIMIT_MB}`, "-DVECTORSZ=2048"];
  const commands = [
    ["spin", ...flagsOf(options), "-a", options.model],
    [
      "gcc",
      options.isOptimized ? "-O1" : "-O0",
      ...kind,
      ...order,
      ...limits,
      "-o",
      "pan",
      "pan.c",
    ],
  ];
  for (const command of commands) {
    const { success, output } = await runCommand(command, BUILD_BOUND_MS, { cwd });
    if (!success) throw new Error(`${command[0]} failed: ${output.slice(-2_000)}`);
  }
}

async function runSearch({ isLiveness, boundMs }: SearchOptions, cwd: string): Promise<string> {
  const kind = isLiveness ? ["-a", "-f", "-N", "live"] : [];
  const child = spawnProcess(["./pan", "-m200000", "-w24", ...kind], { cwd, stdout: "pipe" });
  // After SIGINT, it still prints its results so far.
  const timer = setTimeout(() => child.kill("SIGINT"), boundMs);
  const output = await text(child.stdout!);
  await child.ended;
  clearTimeout(timer);
  return output;
}

/** Replays the counterexample from the file that Spin wrote. */
async function replay(options: SearchOptions, cwd: string): Promise<string[]> {
  const command = ["spin", ...flagsOf(options), "-t", options.model];
  return readSteps((await runCommand(command, SHOW_BOUND_MS, { cwd })).output);
}

function flagsOf({ definitions, isBreadthFirst }: SearchOptions): string[] {
  const all = isBreadthFirst ? [...definitions, "BFSMODE"] : definitions;
  return all.map((definition) => `-D${definition}`);
}

/** Reads the output of the search. */
export function readResult(output: string): Omit<SearchResult, "steps"> {
  const [, errors] = /errors: (\d+)/.exec(output) ?? [];
  const [, states] = /^\s*(\d\S*) states, stored/m.exec(output) ?? [];
  if (errors === undefined) throw new Error(`The search failed: ${output.slice(-2_000)}`);
  const problem = /^pan:\s*\d+: *(.+)$/m.exec(output)?.[1];
  const isCut = /Search not completed|max search depth too small/.test(output);
  return { errors: Number(errors), states: Number(states), isComplete: !isCut, problem };
}

const REQUESTS = ["", "acquire", "try", "end", "renew", "steal"];
const REPLIES = [
  "",
  "GRANTED",
  "QUEUED",
  "HELD",
  "GONE",
  "OK",
  "LOST",
  "NOSCRIPT",
  "ERROR",
  "SEARCHING",
];
const STEP = /^(c\d|server|grant|TTL|waiter|inbox|searching|STALE|foreign|FLUSH|deadline)/;

/** Reads the steps of a counterexample from the output of `spin -t`, and replaces numbers by names. */
export function readSteps(output: string): string[] {
  return output.replaceAll(/under way;\s+/g, "under way\n").split("\n")
    .map((line) => line.trim())
    .filter((line) => STEP.test(line))
    .map((line) =>
      line.replaceAll(/reply (\d)/g, (_, number) => REPLIES[number] ?? number)
        .replaceAll(/\b(\d)\((?=c\d |id\d)/g, (_, number) => `${REQUESTS[number] ?? number}(`)
    );
}
