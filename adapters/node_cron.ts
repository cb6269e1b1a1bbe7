/**
 * A `RunCoordinator` for node-cron 4.6: each run of a task with `distributed: true` is done by one of many processes.
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
import type { LeaseLostError } from "../core/contract/errors.ts";
import { duration, type OptionTable, readTable, ttl } from "../core/contract/options.ts";
import { SYSTEM_CLOCK } from "../core/time/clock.ts";
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
  /**
   * The longest time, in ms, that a run may hold its lock; at least `keepMs`, whatever is set. After that its lease is
   * lost. node-cron reports no end of a run if its background process has crashed or got the answer too late (after
   * 5 s), or if the task was stopped during its `maxRandomDelay`: such a run keeps its lock for `maxHoldMs`.
   *
   * @default {86400000}
   */
  maxHoldMs?: number | undefined;
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
   * this process, has ended, or began over `maxHoldMs` ago: so take it once, at the start of the task.
   *
   * @param key As node-cron passes it: `` `${name}:${date.toISOString()}` `` with the `date` of the context.
   */
  leaseOf(key: string): Lease | undefined;
}

const RUN_COORDINATOR_OPTIONS = {
  keepMs: ttl(),
  maxHoldMs: duration({ otherwise: 24 * 60 * 60 * 1_000 }),
} satisfies OptionTable<RunCoordinatorOptions>;

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
 * @param options How long a lock is kept, and held at most.
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
  const read = readTable("runCoordinator()", options, RUN_COORDINATOR_OPTIONS);
  const runs = new Map<string, {
    readonly lease: Lease;
    /** The moment, in monotonic ms, at which it has been held for `maxHoldMs`. */
    readonly untilMs: number;
    readonly end: () => void;
  }>();
  return {
    shouldRun(key, ttlMs) {
      const nowMs = SYSTEM_CLOCK.now();
      for (const [earlier, { untilMs }] of runs) { // those that node-cron has never ended
        if (untilMs <= nowMs) runs.delete(earlier);
      }
      const { promise: isElected, resolve, reject } = Promise.withResolvers<boolean>();
      const [, name = key, time] = KEY.exec(key) ?? [];
      const tick = time === undefined ? undefined : new Date(time);
      const keepMs = read.keepMs ?? ttlMs;
      const maxHoldMs = Math.max(read.maxHoldMs, keepMs);
      runOnce(locks, name, { keepMs, maxHoldMs, tick }, (lease) => {
        const { promise: ended, resolve: end } = Promise.withResolvers<void>();
        // A run whose lease is lost stays known: `leaseOf()` must not say that there was none.
        runs.set(key, { lease, untilMs: SYSTEM_CLOCK.now() + maxHoldMs, end });
        const { signal } = lease;
        // Disposal keeps the lock, for half of its time at most, until `onComplete()` tells that the run has ended.
        const onLost = () => (signal.reason as LeaseLostError).reason === "disposed" || end();
        if (signal.aborted) onLost();
        else signal.addEventListener("abort", onLost);
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
