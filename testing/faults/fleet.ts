/**
 * The worker processes of a run: starts, kills and replaces them, and keeps all their events.
 *
 * @module
 */
import type { Signal } from "../runtime/processes.ts";
import type { LockSpec } from "../conformance/lock_spec.ts";
import type { Reporter } from "../processes/child.ts";
import { openLifeline } from "../servers/guarded_process.ts";
import { pause } from "../servers/wait.ts";
import type { WorkerEvent } from "./history.ts";
import { type Habits, startWorker, type WorkerOptions } from "./recording_workers.ts";
import type { WallClock } from "./wall_clock.ts";
import { CONDITION_BOUND_MS } from "../time.ts";

/** How long in ms a worker may take to finish. */
const END_BOUND_MS = CONDITION_BOUND_MS;

/** Options of the workers. */
export interface FleetOptions
  extends Pick<WorkerOptions, "names" | "skew" | "lanes" | "seed" | "storePath"> {
  readonly workers: number;
  readonly habits: Habits;
  /** An older checkout, whose code every second worker runs. */
  readonly beside: URL | undefined;
  /** Their wall clocks; empty if those cannot be set. */
  readonly clocks: readonly WallClock[];
}

/** The part of a place that workers need. */
export interface Workplace {
  /** How long in ms a lease lives without renewal. */
  readonly ttlMs: number;
  /** How a worker opens its lock. */
  specFor(worker: number): LockSpec;
}

interface Incarnation extends AsyncDisposable {
  readonly name: string;
  readonly process: Reporter<WorkerEvent>;
  isRunning: boolean;
}

/** The workers. A worker that is killed, or kills itself, is replaced by its next incarnation. */
export class Fleet implements AsyncDisposable {
  readonly #place: Workplace;
  readonly #options: FleetOptions;
  readonly #all: Incarnation[] = [];
  readonly #live: Incarnation[] = [];
  readonly #crashed = new Set<string>();
  readonly #ends: Promise<void>[] = [];
  /** Failures of workers that no history shows, in words. */
  readonly problems: string[] = [];
  #isEnding = false;

  constructor(place: Workplace, options: FleetOptions) {
    this.#place = place;
    this.#options = options;
    for (let i = 0; i < options.workers; i++) this.#start(i, 0);
  }

  /** The number of workers. */
  get size(): number {
    return this.#options.workers;
  }

  /** Their wall clocks; empty if those cannot be set. */
  get clocks(): readonly WallClock[] {
    return this.#options.clocks;
  }

  /** All events recorded so far. */
  get events(): WorkerEvent[] {
    return this.#all.flatMap(({ process }) => process.reports);
  }

  /** How many leases were granted so far. */
  get grants(): number {
    let count = 0;
    for (const { process: { reports } } of this.#all) {
      for (const { kind } of reports) if (kind === "granted") count++;
    }
    return count;
  }

  /** Whether each worker has made its first call. */
  get hasBegun(): boolean {
    return this.#live.every(({ process }) => process.reports.length > 0);
  }

  /** The incarnations that died before they finished. */
  get crashed(): string[] {
    return [...this.#crashed];
  }

  /** How many processes have not ended. */
  get running(): number {
    return this.#all.filter(({ isRunning }) => isRunning).length;
  }

  /** The name of the current incarnation of a worker. */
  nameOf(worker: number): string {
    return this.#live[worker]!.name;
  }

  /** Sends a signal; does nothing if the process has just ended. */
  kill(worker: number, signal: Signal): void {
    const { name, process, isRunning } = this.#live[worker]!;
    if (!isRunning) return;
    if (signal === "SIGKILL") this.#crashed.add(name);
    process.kill(signal);
  }

  /** Lets all workers finish the calls that they have begun; records those that do not finish. */
  // Paces a workload: the bound for the last calls of all workers, which is recorded.
  async finish(): Promise<void> {
    this.#isEnding = true;
    await Promise.all(this.#live.map(async ({ name, process }) => {
      const ended = new AbortController();
      const finishing = process.finish().then(() => ended.abort());
      await pause(END_BOUND_MS, ended.signal);
      if (ended.signal.aborted) return await finishing;
      this.problems.push(`${name} did not finish within ${END_BOUND_MS} ms`);
    }));
  }

  #start(worker: number, incarnation: number): void {
    const { names, skew, lanes, seed, storePath, habits, clocks, beside } = this.#options;
    const name = incarnation === 0 ? `w${worker}` : `w${worker}.${incarnation}`;
    const process = startWorker(
      {
        ...{ worker: name, names, skew, lanes, storePath, habits },
        ...{ spec: this.#place.specFor(worker), ttlMs: this.#place.ttlMs },
        seed: seed + worker * 1_000 + incarnation,
      },
      clocks[worker]?.env,
      worker % 2 === 1 ? beside : undefined,
    );
    const dispose = () => process[Symbol.asyncDispose]();
    const started: Incarnation = { name, process, isRunning: true, [Symbol.asyncDispose]: dispose };
    this.#all.push(started);
    this.#live[worker] = started;
    const onEnd = (code: number) => {
      started.isRunning = false;
      // 137: SIGKILL, sent by the nemesis or by the worker itself.
      if (code === 137) this.#crashed.add(name);
      else if (!this.#isEnding || code !== 0) this.problems.push(`${name} ended with ${code}`);
      if (!this.#isEnding && code === 137) this.#start(worker, incarnation + 1);
    };
    this.#ends.push(guarded(process.pid, process.ended.then(onEnd)));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#isEnding = true;
    for (const { process } of this.#all) await process[Symbol.asyncDispose]();
    await Promise.all(this.#ends);
  }
}

/** Makes sure that a process ends with this one: a suspended process would outlive it. */
async function guarded(pid: number, ended: Promise<void>): Promise<void> {
  await using lifeline = openLifeline();
  await lifeline.guard(pid);
  await ended;
  await lifeline.forget();
}
