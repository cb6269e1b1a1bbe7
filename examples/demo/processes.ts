/**
 * Runs workers as processes, and kills one of them if the run asks for it.
 *
 * @module
 */
import type { Event } from "./history.ts";
import { nowMs, type Slow, type Task } from "./job.ts";
import { watchForVictim } from "./victim.ts";
import { startWorker, type WorkerProcess } from "./worker_process.ts";

/** The longest time without a message; packages may have to be downloaded on the first start. */
const STALL_MS = 60_000;

/** The listener of a run, and the signal that ends it. */
export interface RunOptions {
  readonly onEvent: (event: Event) => void;
  readonly signal: AbortSignal;
  /** If given, the worker that holds the lock at that moment is killed. */
  readonly slow?: Slow | undefined;
}

/**
 * Starts a process per task, lets them begin together and waits until all have ended. No process is
 * left behind, even if this rejects.
 *
 * @returns The failures of workers, in words.
 */
export async function runProcesses(
  tasks: readonly Task[],
  options: RunOptions,
): Promise<string[]> {
  options.signal.throwIfAborted();
  using stall = watchForStall();
  const workers: WorkerProcess[] = [];
  const judge = options.slow === undefined ? () => {} : killOne(options.slow, workers, options);
  const onEvent = (event: Event) => {
    stall.postpone();
    options.onEvent(event);
    judge(event);
  };
  const killAll = () => workers.forEach((worker) => worker.kill());
  const ending = AbortSignal.any([options.signal, stall.signal]);
  ending.addEventListener("abort", killAll);
  try {
    for (const task of tasks) workers.push(startWorker(task, onEvent));
    await Promise.all(workers.map(({ ready }) => ready));
    for (const worker of workers) worker.start();
    const failures = await allEnded(workers);
    return stall.signal.aborted ? [stall.signal.reason, ...failures] : failures;
  } finally {
    ending.removeEventListener("abort", killAll);
    killAll();
    await allEnded(workers);
    options.signal.throwIfAborted();
  }
}

/** Kills the holder of the slow moment. */
function killOne(
  { atBalance, file }: Slow,
  workers: readonly WorkerProcess[],
  { onEvent }: RunOptions,
): (event: Event) => void {
  const findVictim = watchForVictim(atBalance);
  return (event) => {
    const victim = findVictim(event);
    if (victim === null) return;
    Deno.removeSync(file); // the next holder reads the same balance and must not be slow
    onEvent({ event: "killed", ...victim, atMs: nowMs() });
    workers[victim.worker - 1]!.sacrifice();
  };
}

async function allEnded(workers: readonly WorkerProcess[]): Promise<string[]> {
  const failures = await Promise.all(workers.map(({ ended }) => ended));
  return failures.filter((failure) => failure !== null);
}

/** Aborts when no message has arrived for too long. */
function watchForStall(): Disposable & { postpone(): void; readonly signal: AbortSignal } {
  const stalled = new AbortController();
  const start = () =>
    setTimeout(() => stalled.abort(`no worker made progress for ${STALL_MS / 1_000} s`), STALL_MS);
  let timer = start();
  return {
    signal: stalled.signal,
    postpone() {
      clearTimeout(timer);
      timer = start();
    },
    [Symbol.dispose]: () => clearTimeout(timer),
  };
}
