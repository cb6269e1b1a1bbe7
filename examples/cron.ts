/**
 * A cron job that runs in one of several processes per tick: start `deno run -A examples/cron.ts` as
 * often as you like.
 *
 * Each process ticks, and the one that gets the lock runs the job. Timers and clocks differ by some
 * milliseconds, so a short job may be over before another process ticks, which would then run it again.
 * Therefore the winner holds the lock for half a period, and a process skips a tick that is more than a
 * quarter of a period away by its own clock. As long as clocks differ by less than a quarter of a
 * period, no tick is run twice. While a job still runs, later ticks are skipped. If a job throws, the
 * next process that ticks runs it.
 *
 * @module
 */
// deno-lint-ignore-file no-console -- this is a command
import { setTimeout as pause } from "node:timers/promises";
import { parseArgs } from "node:util";
import type { DistributedLock, Lease } from "@holdfast/lock";
import { chooseBackend, openLock } from "./open_lock.ts";

const USAGE = `Runs a job once per tick, however many of these processes there are.
The lock is kept in files, or in the service that REDIS_URL or ZOOKEEPER_CONNECT name.

  --every-ms N   the period (5000 by default)
  --slow-ms N    pretend that this process's clock is late by this much (0 by default)
  --help         print this text`;

/** The outcome of a tick: the job ran, another process had the lock, or the tick was too far away. */
export type Outcome = "ran" | "somebody else" | "too late";

/**
 * Runs the job for the current tick, unless another process does.
 *
 * @throws The error of the job, or of the lock.
 */
export async function runTick(
  locks: DistributedLock,
  name: string,
  everyMs: number,
  now: () => number,
  job: (tick: Date, lease: Lease) => Promise<void>,
): Promise<Outcome> {
  const tickMs = Math.round(now() / everyMs) * everyMs; // rounded, because timers can be early as well as late
  const isLate = () => Math.abs(now() - tickMs) > everyMs / 4;
  if (isLate()) return "too late";
  await using lease = await locks.tryAcquire(`cron:${name}`);
  if (lease === null) return "somebody else";
  if (isLate()) return "too late"; // acquiring took too long: another process may have run this tick
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
      await Promise.resolve(); // your job: pass it lease.signal, and pass the token to the resource that it writes to
    });
    // Not awaited: the next tick comes even if this job takes long.
    ticked.then((outcome) => {
      if (outcome === "somebody else") {
        console.log("Another process runs the report, or has run it");
      }
      if (outcome === "too late") console.log("This tick came too late");
    }, console.error);
  }
}

if (import.meta.main) await main();
