/**
 * Runs workers as tasks of this process, for memory locks.
 *
 * @module
 */
import type { DistributedLock } from "@holdfast/lock";
import { workUnderLock, workWithoutLock } from "../worker.ts";
import type { Job, Message } from "./job.ts";
import type { RunOptions } from "./processes.ts";

/**
 * Runs all jobs concurrently, under a lock or, if `locks` is `null`, without one.
 *
 * @returns The failures of workers, in words.
 */
export async function runTasks(
  jobs: readonly Job[],
  locks: DistributedLock | null,
  { onEvent, signal }: Omit<RunOptions, "slow">,
): Promise<string[]> {
  const run = async (job: Job): Promise<string[]> => {
    const say = (message: Message) => {
      signal.throwIfAborted();
      onEvent({ ...message, worker: job.worker });
    };
    try {
      await (locks !== null ? workUnderLock(locks, job, say) : workWithoutLock(job, say));
      return [];
    } catch (error) {
      return [`worker ${job.worker} failed: ${(error as Error).message}`];
    }
  };
  const failures = (await Promise.all(jobs.map(run))).flat();
  signal.throwIfAborted();
  return failures;
}
