/**
 * The command line of the test runner: options, help text, selection of files.
 *
 * @module
 */
import { resolve } from "node:path";
import { parseArgs } from "node:util";
import { JOBS } from "./test_files.ts";
import { newSeed } from "./order.ts";
import { MOST_AT_SECOND_TRY, MOST_LOOKED_AT } from "./second_look.ts";
import { isStrategy, selectFiles, STRATEGIES, testFilesIn } from "./select.ts";
import { readServers, type ServerProgram } from "./server_programs.ts";
import { isStress, type Stress, STRESSES } from "./stress.ts";

/** The help text of the runner. */
export const USAGE = `Usage: deno task test [options] [FILES…]

Runs the tests. Finds or starts the servers that they need and stops them at the end. Prints a line for
each file, and failures in full; a log file, named at the end, has everything.

Tests that fail run once more at the end, alone, if they are at most ${MOST_LOOKED_AT}. One that passes then
is named, but does not fail the run, unless these are more than ${MOST_AT_SECOND_TRY}.

  FILES                 only these test files or folders
  --only memory,file,redis,zookeeper
                        only the tests of these strategies, and those of none
  --filter TEXT         only tests whose name contains TEXT, or matches /REGEX/
  --jobs N              runs N files at a time; ${JOBS} by default
  --verbose             prints everything

  --strict              a test that fails does not run again
  --changed-since REV   a test may pass at the second try only in files that are as in this revision of
                        git
  --repeat N            runs all of it N times, in random order, with --strict; prints at the end which
                        tests failed how often
  --seed S              the order of an earlier run; with --repeat, that of the first run
  --stress KIND         runs the tests under stress: "cpu" (two processes compute), "one-core" (all
                        processes on one core), "disk" (a process writes and syncs), "cold" (a new home
                        folder and empty caches, so that packages are downloaded)

  --servers redis=PATH,redis=PATH,…
                        starts Redis with this program; with several, the tests of Redis run once with
                        each, then the others. "deno task servers" gets some. Without it, the tests look
                        for a server themselves
  --no-install          never installs a missing server, but fails and names it; the same as
                        HOLDFAST_NO_INSTALL=1
  --coverage            prints which lines of the published code the tests reached; what a child process
                        reached counts unless it was killed
  --help                prints this text

Tests choose times by how late things happen on this machine. HOLDFAST_TIME_FACTOR (1 to 4) sets this
factor instead.`;

/** The tests to run, as read from the command line. */
export interface Selection {
  readonly files: readonly string[];
  readonly filter: string | undefined;
  /** Whether these are all tests. */
  readonly isWhole: boolean;
  /** The programs that start Redis; none if the tests look for one. */
  readonly servers: readonly ServerProgram[];
  /** Whether to count the lines that the tests reach. */
  readonly isCovered: boolean;
  /** How many files run at a time. */
  readonly jobs: number;
  /** How many runs to make in a row; undefined without `--repeat`. */
  readonly repeat: number | undefined;
  /** Decides the order of the files. */
  readonly seed: number;
  readonly stress: Stress | undefined;
  /** Whether failed tests must not run once more. */
  readonly isStrict: boolean;
  /** Whether to print everything. */
  readonly isVerbose: boolean;
  /** The revision of git since whose changes no changed test file may need a second try. */
  readonly changedSince: string | undefined;
  /** Whether missing servers must not be installed. */
  readonly isInstallRefused: boolean;
}

/**
 * Reads the arguments; files are relative to the root.
 *
 * @returns Undefined for `--help`.
 * @throws {Error} If an option, a strategy, a file, a server or a kind of stress is unknown, or a number
 *   is none.
 */
export async function readArguments(
  args: readonly string[],
  root: string,
): Promise<Selection | undefined> {
  const { values, positionals } = parseArgs({
    args: [...args],
    allowPositionals: true,
    options: {
      only: { type: "string" },
      filter: { type: "string" },
      jobs: { type: "string" },
      repeat: { type: "string" },
      seed: { type: "string" },
      stress: { type: "string" },
      strict: { type: "boolean", default: false },
      "changed-since": { type: "string" },
      verbose: { type: "boolean", default: false },
      servers: { type: "string" },
      coverage: { type: "boolean", default: false },
      "no-install": { type: "boolean", default: false },
      help: { type: "boolean" },
    },
  });
  if (values.help) return undefined;
  const wanted = values.only?.split(",") ?? STRATEGIES;
  const unknown = wanted.find((name) => !isStrategy(name));
  if (unknown !== undefined) {
    throw new Error(`Unknown strategy "${unknown}": choose from ${STRATEGIES.join(",")}`);
  }
  const { stress } = values;
  if (stress !== undefined && !isStress(stress)) {
    throw new Error(`Unknown stress "${stress}": choose from ${STRESSES.join(", ")}`);
  }
  const repeat = values.repeat === undefined ? undefined : numberIn("--repeat", values.repeat, 1);
  const paths = positionals.length > 0 ? positionals : ["tests"];
  const files = await Promise.all(paths.map((path) => findFiles(path, root)));
  return {
    files: selectFiles(files.flat(), wanted.filter(isStrategy)),
    filter: values.filter,
    isWhole: positionals.length === 0 && values.filter === undefined && wanted === STRATEGIES,
    servers: values.servers === undefined ? [] : await readServers(values.servers, root),
    isCovered: values.coverage,
    jobs: values.jobs === undefined ? JOBS : numberIn("--jobs", values.jobs, 1),
    repeat,
    seed: values.seed === undefined ? newSeed() : numberIn("--seed", values.seed, 0),
    stress,
    isStrict: values.strict || repeat !== undefined,
    isVerbose: values.verbose,
    changedSince: values["changed-since"],
    isInstallRefused: values["no-install"],
  };
}

function numberIn(option: string, text: string, least: number): number {
  const number = Number(text);
  if (text !== "" && Number.isSafeInteger(number) && number >= least) return number;
  throw new Error(`Cannot use "${text}" for ${option}: write a whole number from ${least}`);
}

async function findFiles(path: string, root: string): Promise<string[]> {
  try {
    return await testFilesIn(resolve(root, path));
  } catch {
    throw new Error(`Cannot find the test file or folder "${path}"`);
  }
}
