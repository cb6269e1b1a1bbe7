/**
 * The process behind {@linkcode startCronProcess}: two tasks of node-cron on the same schedule, one with our
 * coordinator, one with the obvious one.
 *
 * Paces a workload: the jobs take their time, and the event loop blocks at moments of the clock.
 *
 * @module
 */
import { type RunCoordinator, schedule, type TaskContext } from "node-cron";
import { createClient } from "redis";
import { runCoordinator } from "../../adapters/node_cron.ts";
import { openLock } from "../conformance/open_lock.ts";
import { inputEnd, print, scriptArgument } from "../runtime/processes.ts";
import { pause } from "../servers/wait.ts";
import type { CronOptions, CronReport } from "./cron_processes.ts";

const EVERY_SECOND = "* * * * * *";
const SECOND_MS = 1_000;

async function main({ spec, url, jobMs, blockMs }: CronOptions): Promise<void> {
  const client = createClient({ url });
  await client.connect();
  // As the comment in the interface of node-cron suggests: "e.g. release a lock".
  const obvious: RunCoordinator = {
    shouldRun: async (key, ttlMs) =>
      await client.set(key, "1", { condition: "NX", expiration: { type: "PX", value: ttlMs } }) !==
        null,
    onComplete: async (key) => void await client.del(key),
  };
  await using open = await openLock(spec);
  const ours = runCoordinator(open.lock);
  const tell = (report: CronReport) => print(`${JSON.stringify(report)}\n`);
  const start = (name: "ours" | "obvious", coordinator: RunCoordinator) => {
    const task = schedule(EVERY_SECOND, async ({ date }: TaskContext) => {
      const key = `${name}:${date.toISOString()}`;
      const token = name === "ours" ? String(ours.leaseOf(key)?.fencingToken) : undefined;
      tell({ what: "runs", name, key, ...token === undefined ? {} : { token } });
      await pause(jobMs);
    }, { name, distributed: true, runCoordinator: coordinator, suppressMissedWarning: true });
    const tellOf = (what: "skips" | "misses") => ({ date, reason }: TaskContext) =>
      tell({ what, name, key: `${name}:${date.toISOString()}`, ...reason ? { reason } : {} });
    task.on("execution:skipped", tellOf("skips"));
    task.on("execution:missed", tellOf("misses"));
    return task;
  };
  const tasks = [start("ours", ours), start("obvious", obvious)];
  const end = new AbortController();
  inputEnd().then(() => end.abort());
  while (!end.signal.aborted) {
    // Blocks the event loop from right before each second, if at all.
    await pause(SECOND_MS - (Date.now() + 20) % SECOND_MS, end.signal);
    const untilMs = performance.now() + (blockMs === 0 ? 0 : blockMs + 20);
    while (performance.now() < untilMs);
    await pause(50, end.signal);
  }
  for (const task of tasks) await task.destroy();
  await pause(jobMs);
  await client.close();
}

if (import.meta.main) await main(scriptArgument());
