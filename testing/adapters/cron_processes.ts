/**
 * Starts processes that run node-cron, and counts the runs of each fire.
 *
 * @module
 */
import type { LockSpec } from "../conformance/lock_spec.ts";
import { type Reporter, startReporter } from "../processes/child.ts";

/** Options of a process. */
export interface CronOptions {
  readonly spec: LockSpec;
  /** The server of the obvious coordinator. */
  readonly url: string;
  readonly jobMs: number;
  /** For how long, in ms, its event loop is blocked at the beginning of each second. */
  readonly blockMs: number;
}

/** What a task of node-cron has done. */
export interface CronReport {
  readonly what: "runs" | "skips" | "misses";
  readonly name: "ours" | "obvious";
  /** The name and the time of the fire. */
  readonly key: string;
  readonly token?: string;
  readonly reason?: string;
}

/** Starts a process, which ends when its input ends. */
export function startCronProcess(options: CronOptions): Reporter<CronReport> {
  return startReporter(new URL("./cron_process.ts", import.meta.url), options);
}

/** How often each fire ran, by its time. */
export function runsByFire(
  processes: readonly Reporter<CronReport>[],
  name: CronReport["name"],
): Map<string, number> {
  const runs = new Map<string, number>();
  for (const report of processes.flatMap(({ reports }) => reports)) {
    if (report.name !== name) continue;
    const count = runs.get(report.key) ?? 0;
    runs.set(report.key, count + (report.what === "runs" ? 1 : 0));
  }
  return runs;
}
