/**
 * Writes what happens to a worker's calls to its standard output, line by line.
 *
 * @module
 */
import type { Lease } from "../../mod.ts";
import { nowUs } from "../processes/clock.ts";
import type { WorkerEvent } from "./history.ts";

/** Tells what has happened to one call, now unless it says when. */
export type Tell = (
  event: Omit<WorkerEvent, "atUs" | "worker" | "call" | "name"> & { atUs?: number },
) => void;

/** Makes the teller of each call. */
export function newRecorder(worker: string): (name: string) => Tell {
  const encoder = new TextEncoder();
  let calls = 0;
  return (name) => {
    const call = `${worker}-${++calls}`;
    return (told) => {
      const event: WorkerEvent = { atUs: nowUs(), worker, call, name, ...told };
      // At once, and in one write that a kill cannot divide: nothing is lost with the process.
      Deno.stdout.writeSync(encoder.encode(`${JSON.stringify(event)}\n`));
    };
  };
}

/**
 * Until when a lease is provable, by its own reckoning, in µs. The clock is read first: if the process
 * is frozen in between, the answer is too early rather than too late.
 */
export function deadlineUsOf(lease: Lease): number {
  const beforeUs = nowUs();
  return beforeUs + Math.floor(lease.remainingMs * 1_000);
}

/** Stands for an owner id, which is a secret, in the records. */
export function hashOf(ownerId: string): string {
  let hash = 0x811c9dc5;
  for (let i = 0; i < ownerId.length; i++) {
    hash = Math.imul(hash ^ ownerId.charCodeAt(i), 0x01000193);
  }
  return (hash >>> 0).toString(16);
}
