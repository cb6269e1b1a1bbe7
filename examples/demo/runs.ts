/**
 * The two runs of the demo: with the lock, and without it.
 *
 * @module
 */
import { MemoryLock } from "@holdfast/lock";
import { createAccount, readAccount } from "../account.ts";
import type { DemoOptions } from "./arguments.ts";
import type { Contrast, Run } from "./checks.ts";
import type { Event } from "./history.ts";
import type { Job, Slow } from "./job.ts";
import { runProcesses } from "./processes.ts";
import { type Screen, showProgress } from "./progress.ts";
import { runTasks } from "./tasks.ts";

/** Enough rounds without a lock to lose updates; more would only take longer. */
const MAX_CONTRAST_ROUNDS = 50;

/** The setting of both runs. */
export interface Setting {
  readonly options: DemoOptions;
  /** The directory of the account. */
  readonly dir: string;
  /** `null` for memory locks, whose workers are tasks of this process. */
  readonly lockUrl: string | null;
  readonly screen: Screen;
  readonly signal: AbortSignal;
}

/** Runs the workers under the lock. */
export async function runLocked(setting: Setting): Promise<Run> {
  const { workers, rounds, kill } = setting.options;
  const accountFile = `${setting.dir}/account.json`;
  await createAccount(accountFile, workers);
  const slow = kill ? await planKill(setting) : undefined;
  const jobs = makeJobs(workers, rounds, accountFile, slow);
  const events: Event[] = [];
  const failures = await runJobs("Under the lock", jobs, events, setting, true);
  return { workers, rounds, kill, events, failures, account: await readAccount(accountFile) };
}

/** Chooses a balance at which no worker has finished all rounds, so that others still want the lock. */
async function planKill({ dir, options }: Setting): Promise<Slow> {
  const file = `${dir}/slow`;
  await Deno.writeTextFile(file, "");
  return { atBalance: options.rounds - 1, file };
}

/** Runs the same workers without a lock. */
export async function runUnlocked(setting: Setting): Promise<Contrast> {
  const rounds = Math.min(setting.options.rounds, MAX_CONTRAST_ROUNDS);
  const { workers } = setting.options;
  const accountFile = `${setting.dir}/unguarded.json`;
  await createAccount(accountFile, workers);
  const jobs = makeJobs(workers, rounds, accountFile);
  const failures = await runJobs("Without a lock", jobs, [], setting, false);
  return { rounds, failures, account: await readAccount(accountFile) };
}

function makeJobs(workers: number, rounds: number, accountFile: string, slow?: Slow): Job[] {
  const common = { rounds, accountFile, ...slow && { slow } };
  return Array.from({ length: workers }, (_, index) => ({ worker: index + 1, ...common }));
}

/** Runs jobs, collects their events and shows progress; resolves with the failures of workers. */
async function runJobs(
  title: string,
  jobs: readonly Job[],
  events: Event[],
  { lockUrl, screen, signal }: Setting,
  isLocked: boolean,
): Promise<string[]> {
  const total = jobs.reduce((sum, { rounds }) => sum + rounds, 0);
  using progress = showProgress(title, total, screen);
  const onEvent = (event: Event) => {
    events.push(event);
    if (event.event === "finished") progress.step();
    if (event.event === "killed") {
      progress.note(`worker ${event.worker} killed while it held the lock`);
    }
  };
  if (lockUrl === null) {
    await using locks = new MemoryLock();
    return await runTasks(jobs, isLocked ? locks : null, { onEvent, signal });
  }
  const tasks = jobs.map((job) => ({ job, lockUrl: isLocked ? lockUrl : null }));
  return await runProcesses(tasks, { onEvent, signal, slow: jobs[0]!.slow });
}
