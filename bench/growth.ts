/**
 * `deno task bench:growth`: prints what the scripts cost the server with more and more waiters.
 *
 * @module
 */
// deno-lint-ignore-file no-console -- this is a command
import { parseArgs } from "node:util";
import { measureGrowth, type PathCost } from "../testing/redis/growth/growth.ts";
import { excessesOf, growthOf, slowdownsOf, tableOf } from "../testing/redis/growth/limits.ts";

const USAGE = `Usage: deno task bench:growth [--waiters N,N,…] [--timings N]

Prints a Markdown table: for each path through the Redis scripts the commands that the script calls, the
items in their replies, the bytes of its own reply, and the server's time in µs. Starts its own server.
Exits with 1 if a cost grows with the number of waiters, with 2 if an argument is wrong.

  --waiters N,N,…  the numbers of waiters (10,1000,10008 by default), in 1 inbox, in 4, and in one each
  --timings N      the timed runs of each path, of which the shortest counts (3 by default)
  --help           prints this text`;

interface Options {
  readonly waiters: readonly number[];
  readonly timings: number;
}

/** Reads the command line; `null` for `--help`. */
function readOptions(args: string[]): Options | null {
  const { values } = parseArgs({
    args,
    options: {
      waiters: { type: "string", default: "10,1000,10008" },
      timings: { type: "string", default: "3" },
      help: { type: "boolean" },
    },
  });
  if (values.help) return null;
  const waiters = values.waiters.split(",").map((text) => wholeNumber("--waiters", text, 4));
  return { waiters, timings: wholeNumber("--timings", values.timings, 1) };
}

function wholeNumber(option: string, text: string, least: number): number {
  const number = Number(text);
  if (Number.isInteger(number) && number >= least) return number;
  throw new RangeError(`Cannot use ${option} ${text}: give whole numbers from ${least}`);
}

/** Prints the table. Returns whether the costs keep to their limits. */
async function report({ waiters, timings }: Options): Promise<boolean> {
  const costs: PathCost[] = [];
  for (const count of waiters) {
    for (const inboxes of [1, 4, count]) {
      costs.push(...await measureGrowth({ waiters: count, inboxes }, timings));
    }
  }
  const growths = growthOf(costs);
  console.log(tableOf(growths));
  const excesses = growths.flatMap((growth) => [...excessesOf(growth), ...slowdownsOf(growth)]);
  for (const excess of excesses) console.log(`TOO MUCH: ${excess}`);
  return excesses.length === 0;
}

async function main(): Promise<number> {
  let options: Options | null;
  try {
    options = readOptions(Deno.args);
  } catch (error) {
    console.error(`${(error as Error).message}\n\n${USAGE}`);
    return 2;
  }
  if (options !== null) return await report(options) ? 0 : 1;
  console.log(USAGE);
  return 0;
}

if (import.meta.main) Deno.exit(await main());
