/**
 * What has happened in a run, put together from what the workers said.
 *
 * @module
 */
import type { Message } from "./job.ts";

/** What a worker said, or what was done to it. */
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
  /** When it was about to release the lock, or was killed; `null` if it failed before. */
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

/** How many rounds a worker has finished by its own account. */
export function finishedRounds(events: readonly Event[], worker: number): number {
  return events.filter((event) => event.event === "finished" && event.worker === worker).length;
}

/** What followed a kill. */
export interface Recovery {
  readonly worker: number;
  readonly round: number;
  readonly atMs: number;
  /** The next grant; `null` if nobody wanted the lock any more. */
  readonly next: Hold | null;
}

/** The kill of a run, if there was one. */
export function recoveryOf(events: readonly Event[], holds: readonly Hold[]): Recovery | null {
  const kill = events.find((event) => event.event === "killed");
  if (kill === undefined) return null;
  const { worker, round, atMs } = kill;
  return { worker, round, atMs, next: holds.find(({ fromMs }) => fromMs > atMs) ?? null };
}
