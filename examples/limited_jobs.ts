/**
 * At most n jobs at the same time, in however many processes: start `deno run -A examples/limited_jobs.ts` as often
 * as you like. A process that dies gives its place back when its lease ends.
 *
 * The n holders share one lock. Each call brings the limit and obeys its own one, so pass the same number everywhere.
 * Jobs begin in the order of their calls. A limit needs a strategy with `capabilities.limit`: Redis, or memory
 * within one process.
 *
 * @module
 */
// deno-lint-ignore-file no-console -- this is a command
import { setTimeout as pause } from "node:timers/promises";
import { parseArgs } from "node:util";
import type { DistributedLock } from "@holdfast/lock";
import { openLock } from "@holdfast/lock/open";

const USAGE = `Runs jobs, of which only some may run at the same time in all processes together.
The locks are on Redis, where HOLDFAST_URL says: redis://127.0.0.1.

  --limit N    how many jobs may run at the same time (3 by default)
  --jobs N     how many jobs this process has (10 by default)
  --ms N       how long a job takes (500 by default)
  --help       print this text`;

const NAME = "exports";

/** Runs a job as soon as fewer than `limit` run. Its signal aborts if the place is lost. */
export async function runLimited<T>(
  locks: DistributedLock,
  limit: number,
  job: (signal: AbortSignal) => Promise<T>,
): Promise<T> {
  return await locks.request(NAME, { limit }, async (lease) => {
    const result = await job(lease.signal);
    lease.throwIfLost(); // else more than `limit` jobs may have run
    return result;
  });
}

async function main(): Promise<void> {
  const { values } = parseArgs({
    options: {
      limit: { type: "string", default: "3" },
      jobs: { type: "string", default: "10" },
      ms: { type: "string", default: "500" },
      help: { type: "boolean" },
    },
  });
  if (values.help) return console.log(USAGE);
  await using locks = await openLock(Deno.env.get("HOLDFAST_URL") ?? "file:");
  const run = async (_: unknown, i: number) => {
    await runLimited(locks, Number(values.limit), async (signal) => {
      console.log(`Began ${i}`);
      await pause(Number(values.ms), undefined, { signal });
      console.log(`Ended ${i}`);
    });
  };
  await Promise.all(Array.from({ length: Number(values.jobs) }, run));
}

if (import.meta.main) await main();
