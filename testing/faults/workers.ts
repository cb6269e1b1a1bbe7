/**
 * Worker processes that record what happens to them.
 *
 * @module
 */
import type { LockSpec } from "../conformance/lock_spec.ts";
import { type Reporter, startReporter } from "../processes/child.ts";
import type { WorkerEvent } from "./history.ts";

/** What a worker does. */
export interface WorkerOptions {
  /** Its name, with its incarnation: `w3`, then `w3.1`. */
  readonly worker: string;
  readonly spec: LockSpec;
  /** The locks that it takes. */
  readonly names: readonly string[];
  /** How many calls are under way at once. */
  readonly lanes: number;
  readonly seed: number;
  /** Of the fenced resource. */
  readonly storePath: string;
  /** How long in ms a lease lives without renewal; what is "longer than that" for it. */
  readonly ttlMs: number;
  /** How often, of a thousand calls, it does what. */
  readonly habits: Habits;
}

/** So many of a thousand calls. */
export interface Habits {
  /** A wait that is given up. */
  readonly aborts: number;
  /** `tryAcquire()`. */
  readonly tries: number;
  /** A hold of some ms. */
  readonly holds: number;
  /** A hold that outlasts the TTL. */
  readonly outlasts: number;
  /** A hold that outlasts the TTL without being renewed. */
  readonly expires: number;
  readonly renews: number;
  /** An event loop that is blocked while the lock is held, perhaps beyond the TTL. */
  readonly blocks: number;
  /** A process that ends without a word while it holds the lock. */
  readonly crashes: number;
  /** A lock that is taken away from its holder. */
  readonly steals: number;
  /** A write after the release, with the old token. */
  readonly writesLate: number;
}

/** The usual mixture. */
export const HABITS: Habits = {
  aborts: 50,
  tries: 50,
  holds: 100,
  outlasts: 1,
  expires: 1,
  renews: 20,
  blocks: 0.5,
  crashes: 0.1,
  steals: 0,
  writesLate: 20,
};

/** Starts a worker process; its reports are its events. */
export function startWorker(
  options: WorkerOptions,
  env?: Readonly<Record<string, string>>,
): Reporter<WorkerEvent> {
  return startReporter<WorkerEvent>(new URL("./worker.ts", import.meta.url), options, env);
}
