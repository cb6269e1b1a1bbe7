/**
 * Random histories of a correct lock, for the tests of the checker.
 *
 * @module
 */
import { randomOf } from "../processes/random.ts";
import type { History, WorkerEvent } from "./history.ts";

const WORKERS = 20;
const TTL_US = 1_000_000;

/** A run without violations: each lock is granted in the order of its queue. */
export function randomHistory(seed: number, calls: number, names: number): History {
  const random = randomOf(seed);
  const events: WorkerEvent[] = [];
  let endUs = 0;
  for (let name = 0; name < names; name++) {
    const share = Math.floor((calls * (name + 1)) / names) - Math.floor((calls * name) / names);
    endUs = Math.max(endUs, addName(`n${name}`, share, random, events));
  }
  events.sort((a, b) => a.atUs - b.atUs);
  return {
    ...{ seed, strategy: "redis", fifo: true, startUs: 0, endUs, events, faults: [] },
    residue: [{ what: "keys", count: 0 }],
  };
}

/** Adds the calls for one name; returns the end of the last one. */
function addName(
  name: string,
  calls: number,
  random: () => number,
  events: WorkerEvent[],
): number {
  let [callUs, freeUs, token] = [0, 0, 0];
  for (let i = 0; i < calls; i++) {
    callUs += Math.ceil(random() * 900);
    const call = `${name}-${i}`;
    const worker = `w${Math.floor(random() * WORKERS)}.0`;
    const tell = (kind: WorkerEvent["kind"], atUs: number, more: Partial<WorkerEvent> = {}) =>
      void events.push({ atUs, worker, call, name, kind, ...more });
    tell("invoke", callUs);
    if (freeUs > callUs) tell("queued", callUs + 1);
    if (freeUs > callUs && random() < 0.1) {
      tell("failed", callUs + 2, { reason: "aborted" });
      continue;
    }
    const grantedUs = Math.max(freeUs, callUs) + 1 + Math.floor(random() * 10);
    const fence = { token: String(token += 1 + Math.floor(random() * 5)) };
    tell("granted", grantedUs, { ...fence, deadlineUs: grantedUs + TTL_US });
    const leavesUs = grantedUs + Math.floor(random() * 800);
    tell("wrote", leavesUs, fence);
    tell("releasing", leavesUs);
    tell("released", leavesUs + 5);
    freeUs = leavesUs;
  }
  return freeUs + 5;
}
