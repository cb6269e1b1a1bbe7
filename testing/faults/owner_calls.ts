/**
 * Calls with owner ids that the caller chose: several at the same time with the same id, in this worker
 * and in others. In one instance only one of them asks, and the others are refused; an attach never is.
 *
 * @module
 */
// Paces a workload: calls of an owner are a random time apart.
import type { AttachableAcquireOptions, AttachableLock, DistributedLock } from "../../mod.ts";
import { pause } from "../servers/wait.ts";
import { hashOf, type Tell } from "./recorder.ts";
import { onWait, play } from "./play.ts";
import type { Play, Work } from "./work.ts";

/** The number of ids that a worker has for each lock, and of those that all workers are given. */
const IDS = 2;
/** The most calls at a time, and how far apart they begin, in ms. */
const CALLS = 4;
const APART_MS = 20;

/** Whether the strategy takes owner ids. */
export function isAttachable(lock: DistributedLock): lock is AttachableLock {
  return lock.capabilities.attach;
}

/** Makes some calls with the same id at about the same time; each may be aborted. */
export async function share(work: Work): Promise<void> {
  const { random, names } = work;
  // A few locks, so that the calls of several workers meet.
  const name = names[Math.floor(random() * names.length / 8)]!;
  const ownerId = drawId(work, name);
  const count = 1 + Math.floor(random() * CALLS);
  await Promise.all(Array.from({ length: count }, async () => {
    await pause(random() * APART_MS);
    await callWith(work, name, ownerId);
  }));
}

/** Mostly an id of this worker, which its later incarnations have too; otherwise one of all workers. */
function drawId({ random, worker }: Work, name: string): string {
  const group = random() < 0.75 ? worker.split(".")[0] : "given";
  return `${group}/${name}/${Math.floor(random() * IDS)}`;
}

async function callWith(work: Work, name: string, ownerId: string): Promise<void> {
  const { random, recorder, managers: { current: manager } } = work;
  const tell = recorder.of(name, manager.instance);
  const signal = random() < 0.35 ? AbortSignal.timeout(random() * 60) : undefined;
  const outlives = random() < 0.15;
  const ttlMs = random() < 0.2 ? Math.round(work.ttlMs * (0.5 + random() * 1.5)) : undefined;
  const ttl = ttlMs === undefined ? {} : { ttlUs: ttlMs * 1_000 };
  tell({ kind: "invoke", owner: hashOf(ownerId), ...ttl });
  const options: AttachableAcquireOptions = {
    ...{ signal, ttlMs, outlivesDisposal: outlives },
    ...random() < 0.2 && { autoRenew: false },
  };
  const ask = askOf(manager.lock as AttachableLock, { name, ownerId, options, tell, random });
  const call: Play = { manager, tell, signal, outlives, ask };
  await play(work, { ...call, ...random() < 0.4 && { holdMs: holdMs(work) } });
}

/** Mostly some ms; sometimes long enough for others to take the lock over and give it back. */
function holdMs({ random, ttlMs }: Work): number {
  return random() < 0.8 ? random() * 5 : random() ** 2 * ttlMs;
}

interface OwnerCall {
  readonly name: string;
  readonly ownerId: string;
  readonly options: AttachableAcquireOptions;
  readonly tell: Tell;
  readonly random: () => number;
}

/** Draws the kind of the call. */
function askOf(lock: AttachableLock, { name, ownerId, options, tell, random }: OwnerCall) {
  const kind = random();
  if (kind < 0.3) return () => lock.attach(name, ownerId, options);
  const all = { ...options, ownerId };
  if (kind < 0.55) return () => lock.tryAcquire(name, all);
  return () => lock.acquire(name, { ...all, onWait: onWait(tell) });
}
