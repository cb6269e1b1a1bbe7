/**
 * What locks cost: `deno task bench`.
 *
 * @module
 */
// deno-lint-ignore-file no-console -- this is a command
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";

const USAGE = `Usage: deno task bench [redis] [zookeeper] [http] [--clients N]

Measures what locks cost, as ratios to the least that could do the job, and says where a ratio is over
its limit (then it ends with 1). Starts servers of its own. Use a machine that does nothing else.

  redis zookeeper http  what to measure; all unless named
  --clients N           how many requests are under way at once in http; one unless given
  --help                prints this`;

const BENCHES = {
  redis: "redis_lock.ts",
  zookeeper: "zookeeper_lock.ts",
  http: "http.ts",
} as const;

type BenchName = keyof typeof BENCHES;

function isBench(name: string): name is BenchName {
  return Object.hasOwn(BENCHES, name);
}

/** Each in a process of its own: what one leaves in memory does not slow the next. */
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
  if (unknown !== undefined) throw new TypeError(`There is no bench "${unknown}"`);
  const clients = Number(values.clients);
  if (!Number.isInteger(clients) || clients < 1 || clients > 1_000) {
    throw new RangeError("--clients must be 1 to 1000");
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
