/**
 * A cron job that runs in one of several processes per tick: start `deno run -A examples/cron.ts` as
 * often as you like.
 *
 * Each process ticks, and `runOnce()` runs the job in the one that gets the lock. The lock stays held for
 * half a period: timers and clocks differ by some milliseconds, so a short job may be over before another
 * process ticks. As long as they differ by less than that, no tick is run twice. The time of the tick is part
 * of the lock's name, so a long job does not suppress the next tick. If the job throws, the tick is over.
 *
 * @module
 */
// deno-lint-ignore-file no-console -- this is a command
import { setTimeout as pause } from "node:timers/promises";
import { parseArgs } from "node:util";
import { openLock } from "@holdfast/lock/open";
import { runOnce } from "@holdfast/lock/recipes";

const USAGE = `Runs a job once per tick, however many of these processes there are.
The locks are in files of this user, or where HOLDFAST_URL says.

  --every-ms N   the period (5000 by default)
  --slow-ms N    pretend that this process's clock is late by this much (0 by default)
  --help         print this text`;

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
  const keepMs = Math.round(everyMs / 2);
  const now = () => Date.now() - Number(values["slow-ms"]);
  await using locks = await openLock(Deno.env.get("HOLDFAST_URL") ?? "file:");
  for (;;) {
    await pause(everyMs - now() % everyMs);
    const tick = new Date(Math.round(now() / everyMs) * everyMs); // timers can be early as well as late
    const ticked = runOnce(locks, "cron:report", { keepMs, tick }, async (lease) => {
      lease.throwIfLost();
      console.log(`${tick.toISOString()} report under token ${lease.fencingToken}`);
      await Promise.resolve(); // your job: pass it lease.signal, and pass the token to the resource that it writes to
    });
    // Not awaited: the next tick comes even if this job takes long.
    ticked.then(({ ran }) => {
      if (!ran) console.log("Another process runs the report, or has run it");
    }, console.error);
  }
}

if (import.meta.main) await main();
