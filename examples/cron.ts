/**
 * A cron job that runs in one of several processes per tick: start `deno run -A examples/cron.ts` as
 * often as you like.
 *
 * All processes tick, and who gets the lock runs the job. Their timers and clocks differ by some
 * milliseconds, so a short job may be over before another process ticks: the lock alone would let that
 * one run it again. Hence the winner holds the lock for half a period, and nobody runs a tick that is
 * more than a quarter away by its own clock. While clocks differ by less than a quarter of a period no
 * tick is run twice. A job that is still at work when the next tick comes skips that one; one that
 * throws leaves its tick to whoever ticks next.
 *
 * @module
 */
// deno-lint-ignore-file no-console -- this is a command
import { setTimeout as pause } from "node:timers/promises";
import { parseArgs } from "node:util";
import type { DistributedLock, Lease } from "@holdfast/lock";
import { chooseBackend, openLock } from "./open_lock.ts";

const USAGE = `Runs a job once per tick, however many of these processes there are.
The lock lives in files, or where REDIS_URL or ZOOKEEPER_CONNECT say.

  --every-ms N   the period (5000 by default)
  --slow-ms N    pretend that this process' clock is so late (0 by default)`;

/** What a process says about one tick. */
export type Outcome = "ran" | "somebody else" | "too late";

/** Runs the job for the tick that is now, unless another process does. Throws what the job throws. */
export async function runTick(
  locks: DistributedLock,
  name: string,
  everyMs: number,
  now: () => number,
  job: (tick: Date, lease: Lease) => Promise<void>,
): Promise<Outcome> {
  const tickMs = Math.round(now() / everyMs) * everyMs; // timers can be early, too
  const isLate = () => Math.abs(now() - tickMs) > everyMs / 4;
  if (isLate()) return "too late";
  await using lease = await locks.tryAcquire(`cron:${name}`);
  if (lease === null) return "somebody else";
  if (isLate()) return "too late"; // to take the lock has taken its time: the tick may be done
  await job(new Date(tickMs), lease);
  const restMs = tickMs + everyMs / 2 - now();
  if (restMs > 0) await pause(restMs, undefined, { signal: lease.signal }).catch(() => {});
  return "ran";
}

async function main(): Promise<void> {
  const { values } = parseArgs({
    options: {
      "every-ms": { type: "string", default: "5000" },
      "slow-ms": { type: "string", default: "0" },
      help: { type: "boolean" },
    },
  });
  if (values.help) return console.log(USAGE);
  const everyMs = Number(values["every-ms"]);
  const now = () => Date.now() - Number(values["slow-ms"]);
  await using open = await openLock(chooseBackend());
  for (;;) {
    await pause(everyMs - now() % everyMs);
    const ticked = runTick(open.locks, "report", everyMs, now, async (tick, lease) => {
      lease.throwIfLost();
      console.log(`${tick.toISOString()} report under token ${lease.fencingToken}`);
      await Promise.resolve(); // your job: give it lease.signal, and the token to what it writes to
    });
    ticked.catch(console.error); // not awaited: the next tick comes even if this job takes long
  }
}

if (import.meta.main) await main();
