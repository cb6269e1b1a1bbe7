/**
 * `deno task bench`: runs the benchmarks, each in its own process.
 *
 * @module
 */
// deno-lint-ignore-file no-console -- this is a command
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";

const USAGE = `Usage: deno task bench [redis] [zookeeper] [http] [file] [--clients N]

Measures the cost of locks as ratios to the least work that could do the same job. Starts its own
servers. Use an idle machine. Exits with 1 if a ratio exceeds its limit, with 2 if an argument is wrong.

  redis zookeeper http file  the benchmarks to run (all by default)
  --clients N                the number of concurrent requests in http (1 by default)
  --help                     prints this text`;

const BENCHES = {
  redis: "redis_lock.ts",
  zookeeper: "zookeeper_lock.ts",
  http: "http.ts",
  file: "file_lock.ts",
} as const;

type BenchName = keyof typeof BENCHES;

function isBench(name: string): name is BenchName {
  return Object.hasOwn(BENCHES, name);
}

/** Runs a benchmark in its own process, so that garbage of one does not slow down the next. */
async function run(name: BenchName, args: readonly string[]): Promise<boolean> {
  const file = fileURLToPath(new URL(BENCHES[name], import.meta.url));
  const child = new Deno.Command(Deno.execPath(), { args: ["run", "-A", file, ...args] });
  return (await child.spawn().status).success;
}

async function main(): Promise<number> {
  const { values, positionals } = parseArgs({
    args: Deno.args,
    allowPositionals: true,
    options: { clients: { type: "string", default: "1" }, help: { type: "boolean" } },
  });
  if (values.help) {
    console.log(USAGE);
    return 0;
  }
  const unknown = positionals.find((name) => !isBench(name));
  if (unknown !== undefined) {
    throw new TypeError(
      `Cannot run the benchmark "${unknown}": choose from ${Object.keys(BENCHES).join(", ")}`,
    );
  }
  const clients = Number(values.clients);
  if (!Number.isInteger(clients) || clients < 1 || clients > 1_000) {
    throw new RangeError(
      `Cannot use --clients ${values.clients}: give a whole number from 1 to 1000`,
    );
  }
  const names = positionals.length > 0 ? positionals.filter(isBench) : Object.keys(BENCHES);
  let isWithinLimits = true;
  for (const name of names as BenchName[]) {
    const args = name === "http" ? [String(clients)] : [];
    if (!await run(name, args)) isWithinLimits = false;
  }
  return isWithinLimits ? 0 : 1;
}

if (import.meta.main) {
  try {
    Deno.exit(await main());
  } catch (error) {
    console.error(`${(error as Error).message}\n\n${USAGE}`);
    Deno.exit(2);
  }
}
