/**
 * Starts worker processes, which record the events of their calls.
 *
 * @module
 */
import type { LockSpec } from "../conformance/lock_spec.ts";
import { type Reporter, startReporter } from "../processes/child.ts";
import type { WorkerEvent } from "./history.ts";

/** Options of a worker. */
export interface WorkerOptions {
  /** Its name, with its incarnation: `w3`, then `w3.1`. */
  readonly worker: string;
  readonly spec: LockSpec;
  /** The locks that it takes. */
  readonly names: readonly string[];
  /** How much more often it takes the first names than the last: 1 for not at all. */
  readonly skew: number;
  /** The number of concurrent calls. */
  readonly lanes: number;
  readonly seed: number;
  /** The path of the fenced resource. */
  readonly storePath: string;
  /** How long in ms a lease lives without renewal. */
  readonly ttlMs: number;
  /** How often it aborts, steals, crashes, … */
  readonly habits: Habits;
}

/** How many of a thousand calls show each habit. */
export interface Habits {
  /** A wait that is aborted. */
  readonly aborts: number;
  /** `tryAcquire()`. */
  readonly tries: number;
  /** A shared call, where the strategy has them; every other name has a limit, where it has limits. */
  readonly reads: number;
  /** A hold of some ms. */
  readonly holds: number;
  /** A hold that outlasts the TTL. */
  readonly outlasts: number;
  /** A hold that outlasts the TTL without being renewed. */
  readonly expires: number;
  readonly renews: number;
  /** An event loop that is blocked while the lock is held, perhaps beyond the TTL. */
  readonly blocks: number;
  /** A process that is killed while it holds the lock. */
  readonly crashes: number;
  /** A lock that is stolen. */
  readonly steals: number;
  /** Concurrent calls with an owner id that the caller chose, where the strategy can attach. */
  readonly shares: number;
  /** A lock manager that is disposed of, while others of its calls wait and hold locks. */
  readonly disposes: number;
  /** A write after the release, with the old token. */
  readonly writesLate: number;
}

/** The usual mix. */
export const HABITS: Habits = {
  aborts: 50,
  tries: 50,
  reads: 300,
  holds: 100,
  outlasts: 1,
  expires: 1,
  renews: 20,
  blocks: 0.5,
  crashes: 0.1,
  steals: 2,
  shares: 120,
  disposes: 2,
  writesLate: 20,
};

/** The program of a worker, from the root of a checkout. */
export const WORKER_PROGRAM = "testing/faults/recording_worker.ts";

/**
 * Starts a worker process, which reports its events.
 *
 * @param checkout The folder whose code it runs, as a URL that ends with a slash.
 */
export function startWorker(
  options: WorkerOptions,
  env?: Readonly<Record<string, string>>,
  checkout: URL = new URL("../../", import.meta.url),
): Reporter<WorkerEvent> {
  return startReporter<WorkerEvent>(new URL(WORKER_PROGRAM, checkout), options, env);
}
