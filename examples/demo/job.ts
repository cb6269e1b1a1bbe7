/**
 * The job of a worker, and the messages that it sends about it.
 *
 * @module
 */
/** The job of one worker. */
export interface Job {
  /** Its number, from 1. */
  readonly worker: number;
  readonly rounds: number;
  readonly accountFile: string;
  /** Slows one round down, so that its holder can be killed. */
  readonly slow?: Slow;
}

/** A worker that reads this balance works for long, as long as the file exists. */
export interface Slow {
  readonly atBalance: number;
  readonly file: string;
}

/** A job for a worker process; without a URL of a lock it works without one. */
export interface Task {
  readonly job: Job;
  readonly lockUrl: string | null;
}

/** A message of a worker. */
export type Message =
  /** It holds the lock. The token is a bigint in decimal. */
  | {
    readonly event: "granted";
    readonly round: number;
    readonly token: string;
    readonly waitedMs: number;
    readonly atMs: number;
  }
  /** It has written, and is about to release the lock. */
  | { readonly event: "finished"; readonly round: number; readonly atMs: number };

/** Sends a message. */
export type Say = (message: Message) => void;

const LONG_MS = 30_000;

/** How long in ms the work of a round takes after the worker read this balance. */
export async function workMs({ slow }: Job, balance: number): Promise<number> {
  const isSlow = slow?.atBalance === balance &&
    await Deno.stat(slow.file).then(() => true, () => false);
  return isSlow ? LONG_MS : 1 + Math.random() * 4;
}

/** How long in ms a worker does something else before its next round. */
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
