/**
 * `deno task metrics`: counts the published code, and what it does in a cycle of acquire and release.
 *
 * @module
 */
// deno-lint-ignore-file no-console -- this is a command
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { startChild } from "../../testing/processes/child.ts";
import { runCommand } from "../../testing/servers/command.ts";
import { BYTES_CLIENTS, type BytesResult } from "./bytes.ts";
import type { CycleJob, CycleResult } from "./cycle_process.ts";
import { CYCLES } from "./cycles.ts";
import { listsOf, type MeasuredBytes, type MeasuredCycle, pageOf, tablesOf } from "./page.ts";
import { publishedPaths, ROOT } from "./published.ts";
import { countPublished } from "./static.ts";

const PAGE = "docs/metrics.md";
const COMMAND_BOUND_MS = 60_000;
const DEFAULT_CYCLES = 200;
/** In flight, when bytes are counted. */
const CALLS = [1, 64];
const NAMES = Object.keys(CYCLES);

const USAGE = `Usage: deno task metrics [--static] [--only CYCLE]... [--cycles N] [--list] [--write]

Counts lines, named types, forwarders, long functions and files of the published code; and calls,
functions, files, objects and frames of a cycle of acquire and release. Prints tables. Starts servers.

  --static      counts only the code; runs nothing
  --only CYCLE  measures only this cycle, and no bytes: ${NAMES.slice(0, 4).join(", ")},
                ${NAMES.slice(4).join(", ")}
  --cycles N    compares rounds of N and 2 N cycles (${DEFAULT_CYCLES} by default, 10 to 10000)
  --list        also prints the forwarders, what is too long, and the frames
  --write       writes ${PAGE}; only without --static and --only
  --help        prints this text`;

interface Options {
  readonly cycles: readonly string[];
  readonly count: number;
  readonly hasBytes: boolean;
  readonly isListed: boolean;
  readonly isWritten: boolean;
}

/** Reads the command line; `null` for `--help`. */
function readOptions(args: string[]): Options | null {
  const { values } = parseArgs({
    args,
    options: {
      static: { type: "boolean", default: false },
      only: { type: "string", multiple: true, default: [] },
      cycles: { type: "string", default: String(DEFAULT_CYCLES) },
      list: { type: "boolean", default: false },
      write: { type: "boolean", default: false },
      help: { type: "boolean", default: false },
    },
  });
  if (values.help) return null;
  const unknown = values.only.find((name) => !NAMES.includes(name));
  if (unknown !== undefined) {
    throw new RangeError(`Cannot measure "${unknown}": choose from ${NAMES.join(", ")}`);
  }
  const count = Number(values.cycles);
  if (!Number.isInteger(count) || count < 10 || count > 10_000) {
    throw new RangeError(`Cannot use --cycles ${values.cycles}: give a number from 10 to 10000`);
  }
  const isPart = values.static || values.only.length > 0;
  if (values.write && isPart) {
    throw new TypeError("Cannot use --write with --static or --only: the page has all metrics");
  }
  return {
    cycles: values.static ? [] : values.only.length > 0 ? values.only : NAMES,
    count,
    hasBytes: !isPart,
    isListed: values.list,
    isWritten: values.write,
  };
}

/** Runs a job in a process of its own. */
async function measure<T>(job: CycleJob): Promise<T> {
  await using child = startChild(new URL("./cycle_process.ts", import.meta.url), job);
  const line = await child.line();
  if (line === null) throw new Error(`Cannot measure ${JSON.stringify(job)}: its process failed`);
  return JSON.parse(line) as T;
}

async function measureAll({ cycles, count, hasBytes, isListed, isWritten }: Options) {
  const commit = isWritten ? await currentCommit() : "";
  const counts = await countPublished();
  const measured: MeasuredCycle[] = [];
  for (const cycle of cycles) {
    const result = await measure<CycleResult>({ cycle, cycles: count });
    measured.push({ title: CYCLES[cycle]!.title, ...result });
  }
  const bytes: MeasuredBytes[] = [];
  for (const client of hasBytes ? BYTES_CLIENTS : []) {
    for (const calls of CALLS) {
      const job = { client, calls };
      bytes.push({ ...job, ...await measure<BytesResult>({ bytes: job }) });
    }
  }
  const metrics = { counts, cycles: measured, bytes };
  console.log(tablesOf(metrics));
  if (isListed) console.log(`\n${listsOf(metrics)}`);
  if (isWritten) await write(pageOf(metrics, commit));
}

/** The last commit that has changed the published code. */
async function currentCommit(): Promise<string> {
  const paths = publishedPaths();
  const changes = await run(["git", "status", "--porcelain", "--", ...paths]);
  if (changes !== "") {
    throw new Error(`Cannot name the commit of the page: commit first\n${changes}`);
  }
  return (await run(["git", "log", "-1", "--format=%h", "--", ...paths])).trim();
}

async function write(page: string): Promise<void> {
  await Deno.writeTextFile(new URL(PAGE, ROOT), page);
  await run([Deno.execPath(), "fmt", "-q", PAGE]);
  console.log(`\nWrote ${PAGE}`);
}

async function run(command: readonly string[]): Promise<string> {
  const cwd = fileURLToPath(ROOT);
  const { success, output } = await runCommand(command, COMMAND_BOUND_MS, { cwd });
  if (!success) throw new Error(`Cannot run ${command.join(" ")}: ${output}`);
  return output;
}

async function main(): Promise<number> {
  let options: Options | null;
  try {
    options = readOptions(Deno.args);
  } catch (error) {
    console.error(`${(error as Error).message}\n\n${USAGE}`);
    return 2;
  }
  if (options === null) console.log(USAGE);
  else await measureAll(options);
  return 0;
}

if (import.meta.main) Deno.exit(await main());
