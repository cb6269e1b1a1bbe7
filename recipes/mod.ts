/**
 * What most programs want a lock for, as plain functions over any strategy: {@linkcode runOnce} for a job
 * that runs once per tick of a schedule, {@linkcode lead} for a leader.
 *
 * @example A job that one of many processes runs each minute
 * ```ts
 * import { MemoryLock } from "@holdfast/lock";
 * import { runOnce } from "@holdfast/lock/recipes";
 *
 * await using locks = new MemoryLock(); // or any other strategy
 * await runOnce(locks, "report", { keepMs: 30_000 }, async (lease) => {
 *   lease.throwIfLost();
 *   await Promise.resolve(); // send the report
 * });
 * ```
 *
 * @module
 */
export { lead, type LeaderChange, type LeadOptions } from "./lead.ts";
export { runOnce, type RunOnceOptions } from "./run_once.ts";
