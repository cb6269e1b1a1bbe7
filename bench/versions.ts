/**
 * `deno task bench:versions`: compares the cost of the Redis locks of an older checkout with those of
 * this tree.
 *
 * @module
 */
// deno-lint-ignore-file no-console -- this is a command
import { existsSync } from "node:fs";
import { pathToFileURL } from "node:url";
import { parseArgs } from "node:util";
import { connectResp, startRedis } from "./versions/servers.ts";
import { reportCalls, reportCounts, reportCycles, reportPaths } from "./versions/report.ts";
import type { Workload } from "./versions/jobs.ts";
import { measureRounds, type Pair, type RoundCost, WORKLOADS } from "./versions/rounds.ts";
import { startVersion, type VersionProcess } from "./versions/version_process.ts";

const DEFAULT_ROUNDS = 16;

const USAGE = `Usage: deno task bench:versions OLD [--counts | --path | --only WORKLOAD] [--calls]
                                     [--rounds N] [--processes N]

Compares the Redis locks of an older checkout of this project with those of this tree. Each runs in its
own process, on a Redis that this command starts. Times, of the process and of the scripts in the server,
are printed but have no limit.
Exits with 1 if this tree needs more commands, arguments or inner calls for an operation, or allocates
over 2 % more bytes per cycle; with 2 if an argument is wrong.

  OLD              the folder of the older checkout, made for example by: git worktree add ../old main
  --counts         prints only the counts per operation, which takes about 20 s
  --calls          also prints which commands the scripts call
  --path           prints only the functions and files between the user's call and the adapter
  --only WORKLOAD  measures only this workload, such as "handoff, 2 waiters"; no counts
  --rounds N       the number of measured rounds, at least 16 (${DEFAULT_ROUNDS} by default), divided among
                   the processes and rounded up to an even number for each
  --processes N    how many processes of each version measure them, one after the other, 1 to 20 (1 by
                   default): a process may be slower than another one of the same code for as long as it lives
  --help           prints this text`;

/** Files that every checkout contains. */
const ENTRIES = ["deno.json", "redis/mod.ts", "redis/clients/node_redis.ts"];
/** The tree of this file. */
const NEW_TREE = new URL("../", import.meta.url).href;

interface Options {
  /** The older checkout, as a file URL that ends in a slash. */
  readonly oldTree: string;
  readonly part: "counts" | "path" | "cycles" | "all";
  readonly showsCalls: boolean;
  readonly workloads: readonly Workload[];
  readonly rounds: number;
  /** Of each version, one after the other. */
  readonly processes: number;
}

/**
 * Reads the command line; `null` for `--help`.
 *
 * @throws {TypeError} If the folder is missing or no checkout, or options exclude each other.
 * @throws {RangeError} If the number of rounds is out of range.
 */
function readOptions(args: string[]): Options | null {
  const { values, positionals } = parseArgs({
    args,
    allowPositionals: true,
    options: {
      counts: { type: "boolean", default: false },
      calls: { type: "boolean", default: false },
      path: { type: "boolean", default: false },
      only: { type: "string" },
      rounds: { type: "string", default: String(DEFAULT_ROUNDS) },
      processes: { type: "string", default: "1" },
      help: { type: "boolean" },
    },
  });
  if (values.help) return null;
  const [folder, ...others] = positionals;
  if (folder === undefined || others.length > 0) {
    throw new TypeError("Cannot compare versions: name one folder with an older checkout");
  }
  const { counts, path, only } = values;
  const parts = [counts && "counts", path && "path", only !== undefined && "cycles"] as const;
  const chosen = parts.filter((part) => part !== false);
  if (chosen.length > 1) {
    throw new TypeError("Cannot use --counts, --path and --only together: choose one");
  }
  const workloads = WORKLOADS.filter(({ title }) => only === undefined || title === only);
  if (workloads.length === 0) {
    const titles = WORKLOADS.map(({ title }) => `"${title}"`).join(", ");
    throw new RangeError(`Cannot measure "${only}": choose from ${titles}`);
  }
  return {
    oldTree: checkoutAt(folder),
    part: chosen[0] ?? "all",
    showsCalls: values.calls,
    workloads,
    rounds: wholeNumber("--rounds", values.rounds, DEFAULT_ROUNDS, 1_000),
    processes: wholeNumber("--processes", values.processes, 1, 20),
  };
}

function wholeNumber(option: string, given: string, min: number, max: number): number {
  const number = Number(given);
  if (Number.isInteger(number) && number >= min && number <= max) return number;
  throw new RangeError(`Cannot use ${option} ${given}: give a whole number from ${min} to ${max}`);
}

function checkoutAt(folder: string): string {
  const tree = pathToFileURL(`${folder}/`);
  if (!existsSync(tree)) {
    throw new TypeError(`Cannot find the folder "${folder}": name a folder with an older checkout`);
  }
  const missing = ENTRIES.filter((entry) => !existsSync(new URL(entry, tree)));
  if (missing.length > 0) {
    throw new TypeError(
      `Cannot use "${folder}" as a checkout of this project: it has no ${missing.join(", no ")}`,
    );
  }
  return tree.href;
}

async function compareCounts(
  versions: Pair<VersionProcess>,
  { showsCalls }: Options,
): Promise<boolean> {
  const counts = {
    old: await versions.old.ask("counts", {}),
    new: await versions.new.ask("counts", {}),
  };
  const isWithin = reportCounts(counts);
  if (showsCalls) reportCalls(counts);
  return isWithin;
}

/** Each workload has new processes: V8 compiles code for all that it has seen, such as a port in a `Proxy`. */
async function compareCycles(
  { workloads, rounds, processes, oldTree }: Options,
  redisUrl: string,
): Promise<boolean> {
  console.log("\nBytes and times per cycle of acquire and release, old | new\n");
  using connection = await connectResp(redisUrl);
  const scriptUs = async () => {
    const info = String(await connection.command("INFO", "commandstats"));
    const times = info.matchAll(/^cmdstat_eval(?:sha)?:calls=\d+,usec=(\d+)/gm);
    return [...times].reduce((sum, [, us]) => sum + Number(us), 0);
  };
  const verdicts: boolean[] = [];
  // An even number: the version that goes first has also gone last before, and is faster for that.
  const each = 2 * Math.ceil(rounds / processes / 2);
  for (const workload of workloads) {
    const costs: Pair<RoundCost>[] = [];
    for (let process = 0; process < processes; process++) {
      await using older = startVersion("old", { tree: oldTree, redisUrl });
      await using newer = startVersion("new", { tree: NEW_TREE, redisUrl });
      const versions = { old: older, new: newer };
      costs.push(...await measureRounds(versions, workload, each, scriptUs));
    }
    verdicts.push(reportCycles(workload.title, costs));
  }
  return verdicts.every(Boolean);
}

async function showPaths(versions: Pair<VersionProcess>): Promise<boolean> {
  console.log(
    "Frames in the version's files, from the user's call to the caller of the port's send()",
  );
  reportPaths("Old version", await versions.old.ask("paths", {}));
  reportPaths("New version", await versions.new.ask("paths", {}));
  return true;
}

/** Returns whether the new version keeps to its limits. */
async function compare(options: Options): Promise<boolean> {
  await using server = await startRedis();
  const redisUrl = server.url;
  if (options.part === "cycles") return await compareCycles(options, redisUrl);
  await using older = startVersion("old", { tree: options.oldTree, redisUrl });
  await using newer = startVersion("new", { tree: NEW_TREE, redisUrl });
  const versions = { old: older, new: newer };
  if (options.part === "path") return await showPaths(versions);
  const verdicts = [await compareCounts(versions, options)];
  if (options.part === "all") verdicts.push(await compareCycles(options, redisUrl));
  return verdicts.every(Boolean);
}

async function main(): Promise<number> {
  let options: Options | null;
  try {
    options = readOptions(Deno.args);
  } catch (error) {
    console.error(`${(error as Error).message}\n\n${USAGE}`);
    return 2;
  }
  if (options !== null) return await compare(options) ? 0 : 1;
  console.log(USAGE);
  return 0;
}

if (import.meta.main) {
  const failed = (error: unknown) => (console.error(error), 2);
  Deno.exit(await main().catch(failed));
}
