/**
 * The process behind {@linkcode startWorker}: acquires, uses and loses locks, and records every event.
 *
 * @module
 */
import process from "node:process";
import { FencedStore } from "../../examples/fenced_store.ts";
import { type DistributedLock, type Lease, LeaseLostError, LockError } from "../../mod.ts";
import { openLock } from "../conformance/open_lock.ts";
import { inputEnd, scriptArgument } from "../runtime/processes.ts";
import { nowUs } from "../processes/clock.ts";
import { randomOf } from "../processes/random.ts";
import { pause } from "../servers/wait.ts";
import { deadlineUsOf, hashOf, newRecorder, type Recorder, type Tell } from "./recorder.ts";
import type { Habits, WorkerOptions } from "./workers.ts";

/** The pause in ms after a call that failed, for example because the service is out of reach. */
const REFUSED_PAUSE_MS = 20;
/** How often in ms a holder checks whether a renewal has moved its deadline. */
const LOOK_MS = 100;

/** The state that all calls of the process share. */
interface Work extends WorkerOptions {
  readonly lock: DistributedLock;
  readonly store: FencedStore;
  readonly random: () => number;
  readonly recorder: Recorder;
  /** Draws whether to follow a habit. */
  does(habit: keyof Habits): boolean;
}

/** One call, from `acquire()` to the end of its lease. */
async function turn(work: Work): Promise<void> {
  const { lock, random, names, does } = work;
  const name = names[Math.floor(random() * names.length)]!;
  const tell = work.recorder.of(name);
  if (does("steals")) return await steal(work, name, tell);
  const signal = does("aborts") ? AbortSignal.timeout(random() * 200) : undefined;
  const expires = does("expires");
  const options = { ...signal && { signal }, ...expires && { autoRenew: false } };
  const isTry = does("tries");
  tell({ kind: "invoke" });
  let lease: Lease | null;
  try {
    lease = isTry
      ? await lock.tryAcquire(name, options)
      : await lock.acquire(name, { ...options, onWait: onWait(tell) });
  } catch (error) {
    return await fail(error, signal, tell);
  }
  if (lease === null) return tell({ kind: "failed", reason: "held" });
  tellGranted(lease, tell);
  await use(work, lease, tell, expires || does("outlasts") ? work.ttlMs * 1.5 : undefined);
  tell({ kind: "releasing" });
  await lease.release();
  tell({ kind: "released" });
  if (does("writesLate")) write(work, lease, tell);
}

function onWait(tell: Tell) {
  let isQueued = false;
  return ({ position }: { position?: number }) => {
    if (!isQueued) tell({ kind: "queued", ...position !== undefined && { position } });
    isQueued = true;
  };
}

function tellGranted(lease: Lease, tell: Tell): void {
  const deadlineUs = deadlineUsOf(lease);
  tell({
    kind: "granted",
    token: String(lease.fencingToken),
    deadlineUs,
    owner: hashOf(lease.ownerId),
  });
}

async function fail(error: unknown, signal: AbortSignal | undefined, tell: Tell): Promise<void> {
  if (signal?.aborted && error === signal.reason) {
    return tell({ kind: "failed", reason: "aborted" });
  }
  // Any other error is a bug and ends the process.
  if (!(error instanceof LockError)) throw error;
  tell({ kind: "failed", reason: error.name });
  await pause(REFUSED_PAUSE_MS);
}

/** Steals the lock from its holder. */
async function steal(work: Work, name: string, tell: Tell): Promise<void> {
  tell({ kind: "invoke", steals: true });
  let isGranted = false;
  try {
    await work.lock.request(name, { steal: true }, async (lease) => {
      tellGranted(lease!, tell);
      isGranted = true;
      await use(work, lease!, tell, undefined);
      tell({ kind: "releasing" });
    });
  } catch (error) {
    if (!isGranted) return await fail(error, undefined, tell);
    if (!(error instanceof LeaseLostError)) throw error;
  }
  tell({ kind: "released" });
}

/** Uses the lease, as drawn from the habits. */
async function use(
  work: Work,
  lease: Lease,
  tellAll: Tell,
  outlastMs: number | undefined,
): Promise<void> {
  const { random, does, ttlMs } = work;
  let isLost = false;
  const tell: Tell = (event) => {
    if (event.kind === "lost" && isLost) return;
    isLost ||= event.kind === "lost";
    tellAll(event);
  };
  const tellLost = () =>
    tell({ kind: "lost", reason: (lease.signal.reason as LeaseLostError).reason });
  lease.signal.addEventListener("abort", tellLost);
  try {
    if (lease.signal.aborted) tellLost();
    // Written without a check: the resource must refuse writes that come too late.
    write(work, lease, tell);
    if (does("crashes")) process.kill(process.pid, "SIGKILL");
    if (does("blocks")) block(random() * ttlMs * 1.5);
    if (does("renews")) await renew(lease, tell);
    const holdMs = outlastMs ?? (does("holds") ? random() ** 3 * 50 : 0);
    if (holdMs > 0) await hold(lease, holdMs, tell);
    if (isProven(lease, tell)) write(work, lease, tell);
  } finally {
    lease.signal.removeEventListener("abort", tellLost);
  }
}

function write({ store, worker }: Work, lease: Lease, tell: Tell): void {
  const sentUs = nowUs();
  const isTaken = store.write(lease.name, worker, lease.fencingToken);
  tell({ kind: isTaken ? "wrote" : "refused", token: String(lease.fencingToken), sentUs });
}

function isProven(lease: Lease, tell: Tell): boolean {
  try {
    lease.throwIfLost();
    return true;
  } catch (error) {
    if (!(error instanceof LeaseLostError)) throw error;
    // If the signal has not aborted, the lease is only unproven and may still be valid.
    if (lease.signal.aborted) tell({ kind: "lost", reason: error.reason });
    return false;
  }
}

async function renew(lease: Lease, tell: Tell): Promise<void> {
  try {
    await lease.renew();
    const deadlineUs = deadlineUsOf(lease);
    if (lease.remainingMs > 0) tell({ kind: "renewed", deadlineUs });
  } catch (error) {
    if (!(error instanceof LeaseLostError)) throw error;
    tell({ kind: "lost", reason: error.reason });
  }
}

/** Waits, and records how renewals move the deadline. */
async function hold(lease: Lease, holdMs: number, tell: Tell): Promise<void> {
  let knownUs = deadlineUsOf(lease);
  for (const endUs = nowUs() + holdMs * 1_000; nowUs() < endUs && !lease.signal.aborted;) {
    await pause(Math.min(LOOK_MS, Math.max(0, endUs - nowUs()) / 1_000), lease.signal);
    const deadlineUs = deadlineUsOf(lease);
    if (deadlineUs > knownUs + 1_000 && lease.remainingMs > 0) {
      tell({ kind: "renewed", deadlineUs });
      knownUs = deadlineUs;
    }
  }
}

/** Blocks the event loop. */
function block(ms: number): void {
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, ms);
}

async function main(options: WorkerOptions): Promise<void> {
  await using client = await openLock(options.spec);
  using store = new FencedStore(options.storePath);
  const random = randomOf(options.seed);
  const does = (habit: keyof Habits) => random() * 1_000 < options.habits[habit];
  using recorder = newRecorder(options.worker);
  const work: Work = { ...options, lock: client.lock, store, random, recorder, does };
  let isDone = false;
  const input = (async () => {
    await inputEnd();
    isDone = true;
  })();
  const lanes = Array.from({ length: options.lanes }, async () => {
    while (!isDone) await turn(work);
  });
  await Promise.all([input, ...lanes]);
}

if (import.meta.main) await main(scriptArgument());
