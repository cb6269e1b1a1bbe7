/**
 * Records the events of a worker's calls as lines of its standard output.
 *
 * @module
 */
import type { Lease } from "../../mod.ts";
import { print } from "../runtime/processes.ts";
import { nowUs } from "../processes/machine_clock.ts";
import type { WorkerEvent } from "./history.ts";

/** Records an event of one call, at the current time. */
export type Tell = (
  event: Omit<WorkerEvent, "atUs" | "worker" | "call" | "name" | "instance">,
) => void;

/** How often in ms the recorder checks that the event loop runs. */
const BEAT_MS = 20;
/** A gap longer than this, in µs, is recorded: the process was blocked or suspended. */
const BLOCKED_US = 200_000;

/** Makes a {@linkcode Tell} for each call. Watches the event loop until its disposal. */
export interface Recorder extends Disposable {
  of(name: string, instance: number): Tell;
}

/** Starts to record. */
export function newRecorder(worker: string): Recorder {
  let calls = 0;
  let aliveUs = nowUs();
  const beat = setInterval(() => {
    // A longer gap is recorded by the next event.
    if (nowUs() - aliveUs < BLOCKED_US) aliveUs = nowUs();
  }, BEAT_MS);
  const blocked = (atUs: number) => {
    const silentUs = atUs - aliveUs;
    if (silentUs > 0) aliveUs = atUs;
    return silentUs > BLOCKED_US ? { blockedUs: silentUs } : {};
  };
  return {
    of(name, instance) {
      const call = `${worker}-${++calls}`;
      const place = { worker, call, name, ...instance > 0 && { instance } };
      return (event) => {
        const atUs = nowUs();
        const record: WorkerEvent = { atUs, ...place, ...blocked(atUs), ...event };
        // Synchronously, in one write that a kill cannot split: no event is lost with the process.
        print(`${JSON.stringify(record)}\n`);
      };
    },
    [Symbol.dispose]: () => clearInterval(beat),
  };
}

/**
 * Until when a lease is provable, in µs, as the lease itself computes it. The clock is read first: if
 * the process is suspended in between, the result is too early rather than too late.
 */
export function deadlineUsOf(lease: Lease): number {
  const beforeUs = nowUs();
  return beforeUs + Math.floor(lease.remainingMs * 1_000);
}

/** A hash that replaces an owner id, which is a secret, in the record. */
export function hashOf(ownerId: string): string {
  let hash = 0x811c9dc5;
  for (let i = 0; i < ownerId.length; i++) {
    hash = Math.imul(hash ^ ownerId.charCodeAt(i), 0x01000193);
  }
  return (hash >>> 0).toString(16);
}
