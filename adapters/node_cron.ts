/**
 * A `RunCoordinator` for node-cron 4.6: each run of a task with `distributed: true` happens in one of many
 * processes.
 *
 * @example Usage
 * ```ts
 * import { MemoryLock } from "@holdfast/lock";
 * import { runCoordinator } from "@holdfast/lock/adapters/node-cron";
 *
 * await using locks = new MemoryLock(); // or any other strategy
 * const coordinator = runCoordinator(locks);
 * // cron.setRunCoordinator(coordinator);
 * // cron.schedule("0 * * * * *", report, { name: "report", distributed: true });
 * ```
 *
 * @module
 */
import type { DistributedLock, Lease } from "../core/contract/distributed_lock.ts";
import { type OptionTable, readTable, ttl } from "../core/contract/options.ts";
import { runOnce } from "../recipes/run_once.ts";

/** Options of {@linkcode runCoordinator}. */
export interface RunCoordinatorOptions {
  /**
   * How long, in ms, a run's lock stays held after its start, at least: longer than the processes can differ
   * in when they start. Each run has its own lock, so it may be longer than the period.
   *
   * @default the `distributedLease` of the task, which is 30000 in node-cron unless it is set
   */
  keepMs?: number | undefined;
}

/** What node-cron asks before and after a run, and the leases of the runs of this process. */
export interface LockRunCoordinator {
  /**
   * Whether this process is to run: it has got the lock of the run.
   *
   * @param key The name of the task, a colon, and the time of the run as `toISOString()` writes it.
   * @param ttlMs How long, in ms, the lock stays held after the start, unless `keepMs` is set.
   * @throws {LockUnavailableError} In an outage: node-cron then skips the run, with `coordinator-error`.
   * @throws {LockSetupError} If the service refuses, and will refuse again.
   * @throws {TypeError|RangeError} If `ttlMs` is bad.
   */
  shouldRun(key: string, ttlMs: number): Promise<boolean>;
  /** The run has ended. Its lock stays held until `keepMs` after the start. */
  onComplete(key: string): void;
  /**
   * The lease of a run, for the task itself: its token and its signal. `undefined` if the run is not one of
   * this process, or has ended.
   *
   * @param key As node-cron passes it: `` `${name}:${date.toISOString()}` `` with the `date` of the context.
   */
  leaseOf(key: string): Lease | undefined;
}

/** A run of this process. */
interface Run {
  readonly lease: Lease;
  readonly end: () => void;
}

const RUN_COORDINATOR_OPTIONS = { keepMs: ttl() } satisfies OptionTable<RunCoordinatorOptions>;

/** The key of a run: the name of the task, and the time. */
const KEY = /^(.+):(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z)$/s;

/**
 * Makes a coordinator for `cron.setRunCoordinator()`, or for the option `runCoordinator` of a task.
 *
 * Each run has a lock of its own, held while it lasts and until `keepMs` after its start, so a process that
 * is late does not run it again: see {@linkcode runOnce}. A process that is later than that does not run it
 * either. On Redis the lock outlives its process; on ZooKeeper, files and memory it ends with that.
 *
 * @param locks Any strategy.
 * @param options How long a lock is kept.
 * @throws {TypeError|RangeError} If an option is bad.
 *
 * @example What node-cron does
 * ```ts
 * import { MemoryLock } from "@holdfast/lock";
 * import { runCoordinator } from "@holdfast/lock/adapters/node-cron";
 * import { assert, assertEquals } from "@std/assert";
 *
 * await using locks = new MemoryLock();
 * const coordinator = runCoordinator(locks, { keepMs: 30_000 });
 * const key = `report:${new Date().toISOString()}`;
 * assertEquals(await coordinator.shouldRun(key, 30_000), true);
 * assert(coordinator.leaseOf(key)?.isHeld);
 * coordinator.onComplete(key);
 * assertEquals(await coordinator.shouldRun(key, 30_000), false); // a process that is late
 * ```
 */
export function runCoordinator(
  locks: DistributedLock,
  options: RunCoordinatorOptions = {},
): LockRunCoordinator {
  const { keepMs } = readTable("runCoordinator()", options, RUN_COORDINATOR_OPTIONS);
  const runs = new Map<string, Run>();
  return {
    shouldRun(key, ttlMs) {
      const { promise: isElected, resolve, reject } = Promise.withResolvers<boolean>();
      const [, name = key, time] = KEY.exec(key) ?? [];
      const tick = time === undefined ? undefined : new Date(time);
      runOnce(locks, name, { keepMs: keepMs ?? ttlMs, tick }, (lease) => {
        const { promise: ended, resolve: end } = Promise.withResolvers<void>();
        runs.set(key, { lease, end });
        resolve(true);
        return ended;
      }).then(({ ran }) => resolve(ran), reject); // after the start neither has an effect
      return isElected;
    },
    onComplete(key) {
      runs.get(key)?.end();
      runs.delete(key);
    },
    leaseOf: (key) => runs.get(key)?.lease,
  };
}
