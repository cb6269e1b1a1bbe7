/**
 * `deno task model`: checks the model of the Redis queue.
 *
 * @module
 */
// deno-lint-ignore-file no-console -- this is a command
import { availableParallelism } from "node:os";
import process from "node:process";
import { parseArgs } from "node:util";
import { type Configuration, configurations } from "./configurations.ts";
import { missingTools, search, type SearchResult } from "./spin.ts";

const USAGE = `Usage: deno task model [NAME] [options]

Searches the states of the models of the Redis queue (testing/model/queue.pml, and modes.pml for
shared holders) for broken promises.
Without NAME it does all standard runs, which takes a few minutes. Needs spin and gcc.

  NAME         one standard run, or the name of a new run with the given definitions
  -DNC=2 …     defines a switch or a budget of faults; the top of queue.pml lists them
  --show       also prints the counterexample, step by step
  --live       searches for clients that wait forever, instead of broken assertions
  --seconds N  the time limit of one search (120 by default)
  --list       prints the standard runs
  --help       prints this text

Exits with 0 if all runs end as expected, 1 if one does not, 2 if an argument is wrong.`;

/** The command line. */
interface Command {
  readonly runs: readonly Configuration[];
  readonly isListing: boolean;
  readonly isShowing: boolean;
  readonly isLiveness: boolean;
  readonly boundMs: number;
}

/**
 * Reads the command line; undefined for `--help`.
 *
 * @throws {Error} If an argument is wrong.
 */
function readArguments(args: string[]): Command | undefined {
  const { values, positionals } = parseArgs({
    args,
    allowPositionals: true,
    options: {
      define: { type: "string", short: "D", multiple: true, default: [] },
      show: { type: "boolean", default: false },
      live: { type: "boolean", default: false },
      seconds: { type: "string", default: "120" },
      list: { type: "boolean", default: false },
      help: { type: "boolean", default: false },
    },
  });
  if (values.help) return undefined;
  const seconds = Number(values.seconds);
  if (!(seconds > 0)) {
    throw new Error(`Cannot use --seconds "${values.seconds}": give a number above 0`);
  }
  return {
    runs: select(positionals, values.define),
    isListing: values.list,
    isShowing: values.show,
    isLiveness: values.live,
    boundMs: seconds * 1_000,
  };
}

function select(names: readonly string[], definitions: readonly string[]): Configuration[] {
  const [name, ...others] = names;
  if (others.length > 0) {
    throw new Error(`Cannot check ${names.length} runs by name: give one name at most`);
  }
  const standard = configurations();
  if (name === undefined && definitions.length === 0) return standard;
  const known = standard.find((configuration) => configuration.name === name);
  if (name !== undefined && known === undefined && definitions.length === 0) {
    throw new Error(
      `Cannot find the standard run "${name}": see --list, or add definitions with -D`,
    );
  }
  return [{
    name: name ?? "defined",
    model: known?.model ?? "queue.pml",
    definitions: [...known?.definitions ?? [], ...definitions],
    isLiveness: known?.isLiveness ?? false,
    mustFail: known?.mustFail ?? false,
  }];
}

/** Resolves with whether the run ends as expected. */
async function check(
  { name, model, definitions, mustFail, ...configuration }: Configuration,
  { runs, boundMs, isShowing, ...command }: Command,
): Promise<boolean> {
  const isLiveness = configuration.isLiveness || command.isLiveness;
  const startMs = performance.now();
  const isOptimized = runs.length === 1;
  const isBreadthFirst = mustFail && !isLiveness;
  const how = { isLiveness, isBreadthFirst, isOptimized, boundMs };
  const result = await search({ model, definitions, ...how });
  const isGood = mustFail ? result.errors > 0 : result.errors === 0 && result.isComplete;
  const seconds = ((performance.now() - startMs) / 1_000).toFixed(1);
  console.log(
    `${isGood ? "ok    " : "FAILED"} ${name}: ${describe(result, mustFail)} (${seconds} s)`,
  );
  if (isShowing) { for (const step of result.steps) console.log(`  ${step}`); }
  return isGood;
}

/** Does as many runs at a time as there are processors. */
async function checkAll(command: Command): Promise<boolean> {
  const queue = [...command.runs];
  let isGood = true;
  const worker = async () => {
    for (let run = queue.shift(); run !== undefined; run = queue.shift()) {
      if (!await check(run, command)) isGood = false;
    }
  };
  await Promise.all(Array.from({ length: availableParallelism() }, worker));
  return isGood;
}

function describe(
  { errors, states, isComplete, problem }: SearchResult,
  mustFail: boolean,
): string {
  const expected = mustFail ? ", as expected without this rule" : "";
  const why = problem === undefined ? "" : `: ${problem}`;
  const end = isComplete || errors > 0 ? "" : ", not complete";
  return `${errors} errors${errors > 0 ? expected + why : ""}, ${states} states${end}`;
}

/** Resolves with the exit code. */
async function main(): Promise<number> {
  let command: Command | undefined;
  try {
    command = readArguments(process.argv.slice(2));
  } catch (error) {
    console.error(`${(error as Error).message}\n\n${USAGE}`);
    return 2;
  }
  if (command === undefined) {
    console.log(USAGE);
    return 0;
  }
  if (command.isListing) {
    for (const { name, definitions } of command.runs) {
      console.log(`${name} ${definitions.map((definition) => `-D${definition}`).join(" ")}`);
    }
    return 0;
  }
  const missing = await missingTools();
  if (missing !== undefined) {
    console.error(missing);
    return 1;
  }
  return await checkAll(command) ? 0 : 1;
}

if (import.meta.main) process.exit(await main());
