/**
 * Writes what happens to a worker's calls to its standard output, line by line.
 *
 * @module
 */
import type { Lease } from "../../mod.ts";
import { print } from "../runtime/processes.ts";
import { nowUs } from "../processes/clock.ts";
import type { WorkerEvent } from "./history.ts";

/** Tells what happens to one call now. */
export type Tell = (event: Omit<WorkerEvent, "atUs" | "worker" | "call" | "name">) => void;

/** How often in ms to see whether the event loop goes on. */
const BEAT_MS = 20;
/** A longer silence is told, in µs: for so long the process was blocked, or frozen. */
const BLOCKED_US = 200_000;

/** Makes the teller of each call. Watches over the event loop until it is disposed of. */
export interface Recorder extends Disposable {
  of(name: string): Tell;
}

/** Starts to record. */
export function newRecorder(worker: string): Recorder {
  let calls = 0;
  let aliveUs = nowUs();
  const beat = setInterval(() => {
    // A longer silence is left to the next event, which tells of it.
    if (nowUs() - aliveUs < BLOCKED_US) aliveUs = nowUs();
  }, BEAT_MS);
  const blocked = (atUs: number) => {
    const silentUs = atUs - aliveUs;
    if (silentUs > 0) aliveUs = atUs;
    return silentUs > BLOCKED_US ? { blockedUs: silentUs } : {};
  };
  return {
    of(name) {
      const call = `${worker}-${++calls}`;
      return (told) => {
        const atUs = nowUs();
        const event: WorkerEvent = { atUs, worker, call, name, ...blocked(atUs), ...told };
        // At once, and in one write that a kill cannot divide: nothing is lost with the process.
        print(`${JSON.stringify(event)}\n`);
      };
    },
    [Symbol.dispose]: () => clearInterval(beat),
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
