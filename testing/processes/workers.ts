/**
 * Starts processes with many waiters, and checks the order in which these were served.
 *
 * @module
 */
import type { AcquireOptions, LockMode } from "../../mod.ts";
import type { LockSpec } from "../conformance/lock_spec.ts";
import type { Signal } from "../runtime/processes.ts";
import { startReporter } from "./child.ts";

/** Options of one process. */
export interface WorkerOptions {
  readonly spec: LockSpec;
  readonly name: string;
  readonly waiters: number;
  /** Whether some waits time out. */
  readonly aborts: boolean;
  readonly seed: number;
  /** How long in ms each holder keeps the lock. */
  readonly holdMs?: number;
  /** The modes and limits of the calls, of which each takes one by chance. Left out: all are exclusive. */
  readonly modes?: readonly Pick<AcquireOptions, "mode" | "limit">[];
  /** Whether each waiter is served once. */
  readonly isOnce?: boolean;
}

/** One grant; times in µs on a clock that all processes share. */
export interface Grant {
  readonly token: string;
  /** Left out: `"exclusive"`. */
  readonly mode?: LockMode;
  /** When `acquire()` was called. */
  readonly calledUs: number;
  /** When `onWait` was first called; `Infinity` (null in JSON) if the call did not have to wait. */
  readonly queuedUs: number | null;
  /** From the return of `acquire()` until the last use of the lease; both are equal if it was lost. */
  readonly held?: readonly [startUs: number, endUs: number];
}

/** A running process. */
export interface Worker extends AsyncDisposable {
  /** The grants reported so far. */
  readonly grants: readonly Grant[];
  kill(signal: Signal): void;
  /** Lets its waiters finish; resolves with its exit code. */
  finish(): Promise<number>;
}

/** Starts a process. */
export function startWorker(options: WorkerOptions): Worker {
  const { reports, kill, finish, [Symbol.asyncDispose]: dispose } = startReporter<Grant>(
    new URL("./worker.ts", import.meta.url),
    options,
  );
  return { grants: reports, kill, finish, [Symbol.asyncDispose]: dispose };
}

/** How often a holder still used a provable lease when the next holder began. */
export function overlaps(grants: readonly Grant[]): number {
  const spans = grants.flatMap(({ token, held }) => held ? [{ token: BigInt(token), held }] : []);
  spans.sort((a, b) => a.token < b.token ? -1 : 1);
  let latestEndUs = -Infinity;
  let count = 0;
  for (const { held: [startUs, endUs] } of spans) {
    if (startUs < latestEndUs) count++;
    latestEndUs = Math.max(latestEndUs, endUs);
  }
  return count;
}

/**
 * How many grants came out of order: a waiter was in the queue before another call was made, and that
 * call was granted first.
 */
export function inversions(grants: readonly Grant[]): number {
  const inOrder = [...grants].sort((a, b) => BigInt(a.token) < BigInt(b.token) ? -1 : 1);
  let latestCallUs = -Infinity;
  let count = 0;
  for (const { calledUs, queuedUs } of inOrder) {
    if (queuedUs !== null && latestCallUs > queuedUs) count++;
    latestCallUs = Math.max(latestCallUs, calledUs);
  }
  return count;
}

/**
 * How many calls passed an earlier one: that one was in the queue before the call was made, and its use began later,
 * though one of the two is exclusive. Shared ones hold the lock together, so nobody sees which was first.
 */
export function mixedInversions(grants: readonly Grant[]): number {
  const inOrder = grants.filter(({ held }) => held !== undefined)
    .sort((a, b) => a.held![0] - b.held![0]);
  const latestCallUs = { shared: -Infinity, exclusive: -Infinity };
  let count = 0;
  for (const { mode = "exclusive", calledUs, queuedUs } of inOrder) {
    const others = mode === "exclusive"
      ? Math.max(latestCallUs.shared, latestCallUs.exclusive)
      : latestCallUs.exclusive;
    if (queuedUs !== null && others > queuedUs) count++;
    latestCallUs[mode] = Math.max(latestCallUs[mode], calledUs);
  }
  return count;
}

/** How often a lease was still used when another one began, and one of them was exclusive. */
export function mixedOverlaps(grants: readonly Grant[]): number {
  const spans = grants.flatMap(({ mode = "exclusive", held }) => held ? [{ mode, held }] : []);
  spans.sort((a, b) => a.held[0] - b.held[0]);
  const latestEndUs = { shared: -Infinity, exclusive: -Infinity };
  let count = 0;
  for (const { mode, held: [startUs, endUs] } of spans) {
    if (startUs < latestEndUs.exclusive) count++;
    else if (mode === "exclusive" && startUs < latestEndUs.shared) count++;
    latestEndUs[mode] = Math.max(latestEndUs[mode], endUs);
  }
  return count;
}

/** How many grants began in a different order than their tokens. */
export function tokenInversions(grants: readonly Grant[]): number {
  const inOrder = grants.filter(({ held }) => held !== undefined)
    .sort((a, b) => a.held![0] - b.held![0]);
  let latest = -1n;
  let count = 0;
  for (const { token } of inOrder) {
    if (BigInt(token) <= latest) count++;
    else latest = BigInt(token);
  }
  return count;
}
