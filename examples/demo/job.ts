/**
 * What a worker is to do, and what it says about it.
 *
 * @module
 */
import type { Backend } from "../open_lock.ts";

/** One worker's part of the job. */
export interface Job {
  /** Its number, from 1. */
  readonly worker: number;
  readonly rounds: number;
  readonly accountFile: string;
  /** Makes the work so long at one moment of the run that a holder can be killed then. */
  readonly slow?: Slow;
}

/** Whoever reads this balance works long, as long as the file exists. */
export interface Slow {
  readonly atBalance: number;
  readonly file: string;
}

/** A job for a worker process; without a backend it works without a lock. */
export interface Task {
  readonly job: Job;
  readonly backend: Backend | null;
}

/** What a worker says. */
export type Message =
  /** It holds the lock. The token is a bigint, in digits. */
  | {
    readonly event: "granted";
    readonly round: number;
    readonly token: string;
    readonly waitedMs: number;
    readonly atMs: number;
  }
  /** It has written, and is about to release the lock. */
  | { readonly event: "finished"; readonly round: number; readonly atMs: number };

/** Takes what a worker says. */
export type Say = (message: Message) => void;

const LONG_MS = 30_000;

/** How long the work of a round takes, for one who has read this balance. */
export async function workMs({ slow }: Job, balance: number): Promise<number> {
  const isSlow = slow?.atBalance === balance &&
    await Deno.stat(slow.file).then(() => true, () => false);
  return isSlow ? LONG_MS : 1 + Math.random() * 4;
}

/** How long a worker does something else before its next round. */
export function restMs(): number {
  return 2 + Math.random() * 8;
}

/**
 * The wall clock in ms, with fractions. Processes share it, unlike `performance.now()`, whose zero is
 * the start of each process.
 */
export function nowMs(): number {
  return Number(Temporal.Now.instant().epochNanoseconds) / 1e6;
}
