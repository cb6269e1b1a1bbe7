/**
 * Checks the model of the Redis queue: `deno task model`.
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

Searches the states of the model of the Redis queue (testing/model/queue.pml) for broken promises.
Without a name: the standard runs, a few minutes. Needs spin and gcc.

  NAME         one run: of the standard ones, or a new one with the definitions that are given
  -DNC=2 …     defines a switch or a budget of faults, as the top of queue.pml lists them
  --show       prints the counterexample, step by step
  --live       looks for clients that wait for ever instead of broken assertions
  --seconds N  how long one search may take, 120 by default
  --list       prints the standard runs
  --help       prints this

Ends with 0 if all is as it should be, 1 if not, 2 if the arguments are wrong.`;

/** The command, as the arguments say. */
interface Command {
  readonly runs: readonly Configuration[];
  readonly isListing: boolean;
  readonly isShowing: boolean;
  readonly isLiveness: boolean;
  readonly boundMs: number;
}

/** Undefined if only help is asked for; throws what is wrong. */
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
  if (!(seconds > 0)) throw new Error("'--seconds' must be a number above 0");
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
  if (others.length > 0) throw new Error("Name one run at most");
  const standard = configurations();
  if (name === undefined && definitions.length === 0) return standard;
  const known = standard.find((configuration) => configuration.name === name);
  if (name !== undefined && known === undefined && definitions.length === 0) {
    throw new Error(`There is no standard run "${name}": see --list, or define something with -D`);
  }
  return [{
    name: name ?? "defined",
    definitions: [...known?.definitions ?? [], ...definitions],
    mustFail: known?.mustFail ?? false,
  }];
}

/** Resolves with whether the result is as it should be. */
async function check(
  { name, definitions, mustFail }: Configuration,
  { runs, isLiveness, boundMs, isShowing }: Command,
): Promise<boolean> {
  const startMs = performance.now();
  const isOptimized = runs.length === 1;
  const isBreadthFirst = mustFail && !isLiveness;
  const result = await search({ definitions, isLiveness, isBreadthFirst, isOptimized, boundMs });
  const isGood = mustFail ? result.errors > 0 : result.errors === 0 && result.isComplete;
  const seconds = ((performance.now() - startMs) / 1_000).toFixed(1);
  console.log(
    `${isGood ? "ok    " : "FAILED"} ${name}: ${describe(result, mustFail)} (${seconds} s)`,
  );
  if (isShowing) { for (const step of result.steps) console.log(`  ${step}`); }
  return isGood;
}

/** Runs as many at a time as there are processors. */
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
  const expected = mustFail ? ", as a rule is left out" : "";
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
