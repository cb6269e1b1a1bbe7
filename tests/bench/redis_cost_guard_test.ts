import { assert, assertEquals } from "@std/assert";
import {
  bytesPerCycle,
  countOperations,
  lockCycle,
  openGuardStage,
} from "../../bench/guard/counts.ts";
import { say } from "../../testing/processes/figures.ts";

/** The greatest allowed counts of an operation. Lower them when the code needs less. */
interface Limits {
  readonly commands: number;
  /** KEYS and ARGV of the scripts: both travel as arguments. */
  readonly arguments: number;
  /** Commands that the scripts call. */
  readonly calls: number;
}

const LIMITS: Readonly<Record<string, Limits>> = {
  "acquire": { commands: 1, arguments: 9, calls: 4 },
  "release": { commands: 1, arguments: 7, calls: 3 },
  "renewal": { commands: 1, arguments: 6, calls: 6 },
  "tryAcquire of a held lock": { commands: 1, arguments: 9, calls: 5 },
  "handoff": { commands: 1, arguments: 7, calls: 14 },
  "release after a wait": { commands: 1, arguments: 7, calls: 10 },
};

/** The greatest number of bytes that a cycle may allocate with ioredis, with a generous margin. */
const BYTES_LIMITS = [
  { calls: 1, cycles: 300, rounds: 4, limit: 36_000 },
  { calls: 64, cycles: 1_280, rounds: 4, limit: 26_000 },
];

Deno.test("RedisLock operations need no more commands, arguments and inner calls than they may", async () => {
  await using stage = await openGuardStage();
  const costs = await countOperations(stage);
  assertEquals(costs.map(({ operation }) => operation).sort(), Object.keys(LIMITS).sort());
  const excesses = costs.flatMap(({ operation, commands, keys, args, calls }) => {
    const counts: Limits = { commands, arguments: keys + args, calls: calls.length };
    const limits = LIMITS[operation]!;
    say(`${operation}: ${JSON.stringify(counts)}`);
    return (Object.keys(limits) as (keyof Limits)[])
      .filter((key) => counts[key] > limits[key])
      .map((key) =>
        `${operation}: ${counts[key]} ${key}, limit ${limits[key]}: ${calls.join(" ")}`
      );
  });
  assertEquals(excesses, []);
});

Deno.test("a cycle of RedisLock allocates no more bytes than it may", async () => {
  await using stage = await openGuardStage();
  for (const { limit, ...workload } of BYTES_LIMITS) {
    const bytes = await bytesPerCycle(lockCycle(stage.holder), workload);
    say(`${workload.calls} in flight: ${Math.round(bytes)} bytes per cycle, limit ${limit}`);
    assert(bytes <= limit, `${bytes} bytes with ${workload.calls} in flight, limit ${limit}`);
  }
});
