/**
 * The history of a run, built from the messages of its workers.
 *
 * @module
 */
import type { Message } from "./job.ts";

/** A message of a worker, or its kill. */
export type Event = { readonly worker: number } & (Message | Kill);

/** The demo has sent SIGKILL. */
export interface Kill {
  readonly event: "killed";
  readonly round: number;
  readonly atMs: number;
}

/** A time during which a worker held the lock. */
export interface Hold {
  readonly worker: number;
  readonly token: bigint;
  readonly waitedMs: number;
  readonly fromMs: number;
  /** When it was about to release the lock, or was killed; `null` if it failed before that. */
  readonly toMs: number | null;
}

/** The holds, in the order of their grants. */
export function holdsOf(events: readonly Event[]): Hold[] {
  const ends = new Map<string, number>();
  for (const event of events) {
    if (event.event !== "granted") ends.set(`${event.worker}/${event.round}`, event.atMs);
  }
  const holds: Hold[] = [];
  for (const event of events) {
    if (event.event !== "granted") continue;
    const { worker, round, token, waitedMs, atMs } = event;
    const toMs = ends.get(`${worker}/${round}`) ?? null;
    holds.push({ worker, token: BigInt(token), waitedMs, fromMs: atMs, toMs });
  }
  return holds.sort((a, b) => a.fromMs - b.fromMs);
}

/** How many finished rounds a worker reported. */
export function finishedRounds(events: readonly Event[], worker: number): number {
  return events.filter((event) => event.event === "finished" && event.worker === worker).length;
}

/** A kill and the grant that followed. */
export interface Recovery {
  readonly worker: number;
  readonly round: number;
  readonly atMs: number;
  /** The next grant; `null` if no worker wanted the lock any more. */
  readonly next: Hold | null;
}

/** The kill of a run, if there was one. */
export function recoveryOf(events: readonly Event[], holds: readonly Hold[]): Recovery | null {
  const kill = events.find((event) => event.event === "killed");
  if (kill === undefined) return null;
  const { worker, round, atMs } = kill;
  return { worker, round, atMs, next: holds.find(({ fromMs }) => fromMs > atMs) ?? null };
}
