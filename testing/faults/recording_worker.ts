/**
 * The process behind {@linkcode startWorker}: acquires, uses and loses locks, and records every event.
 *
 * @module
 */
import { FencedStore } from "../../examples/fenced_store.ts";
import { type DistributedLock, LeaseLostError } from "../../mod.ts";
import { inputEnd, scriptArgument } from "../runtime/processes.ts";
import { randomOf } from "../processes/random.ts";
import { use, write } from "./lease_use.ts";
import { type Manager, Managers } from "./managers.ts";
import { isAttachable, share } from "./owner_calls.ts";
import { fail, onWait, play, tellGranted } from "./play.ts";
import { newRecorder, type Tell } from "./recorder.ts";
import type { Work } from "./work.ts";
import type { Habits, WorkerOptions } from "./recording_workers.ts";

/** The limit of the names that have one. */
const LIMIT = 2;

/** One turn of a lane: a call from `acquire()` to the end of its lease, or another habit. */
async function turn(work: Work): Promise<void> {
  const { random, names, skew, does, managers } = work;
  const name = names[Math.floor(random() ** skew * names.length)]!;
  const manager = managers.current;
  if (does("disposes")) return await managers.replace();
  if (manager.lock.capabilities.steal && does("steals")) {
    return await steal(work, manager, name, work.recorder.of(name, manager.instance));
  }
  if (isAttachable(manager.lock) && does("shares")) return await share(work);
  await call(work, manager, name, work.recorder.of(name, manager.instance));
}

/** The terms of a shared call, which are the same for all of them with this name. */
function termsOf({ names }: Work, { capabilities }: DistributedLock, name: string) {
  if (!capabilities.shared) return {};
  const hasLimit = capabilities.limit && names.indexOf(name) % 2 === 1;
  return { mode: "shared" as const, ...hasLimit && { limit: LIMIT } };
}

async function call(work: Work, manager: Manager, name: string, tell: Tell): Promise<void> {
  const { random, does } = work;
  const signal = does("aborts") ? AbortSignal.timeout(random() * 200) : undefined;
  const expires = does("expires");
  const { lock } = manager;
  const terms = does("reads") ? termsOf(work, lock, name) : {};
  const options = { ...signal && { signal }, ...expires && { autoRenew: false }, ...terms };
  const isTry = does("tries");
  tell({ kind: "invoke", ...terms });
  const lease = await play(work, {
    ...{ manager, tell, signal },
    holdMs: expires || does("outlasts") ? work.ttlMs * 1.5 : undefined,
    ask: () =>
      isTry
        ? lock.tryAcquire(name, options)
        : lock.acquire(name, { ...options, onWait: onWait(tell) }),
  });
  if (lease !== null && does("writesLate")) write(work, lease, tell);
}

/** Steals the lock from its holder. */
async function steal(work: Work, manager: Manager, name: string, tell: Tell): Promise<void> {
  tell({ kind: "invoke", steals: true });
  let isGranted = false;
  try {
    await manager.lock.request(name, { steal: true }, async (lease) => {
      tellGranted(lease!, tell, false);
      isGranted = true;
      await use(work, lease!, { manager, tell });
      tell({ kind: "releasing" });
    });
  } catch (error) {
    if (!isGranted) return await fail(error, manager, undefined, tell);
    if (!(error instanceof LeaseLostError)) throw error;
  }
  tell({ kind: "released" });
}

async function main(options: WorkerOptions): Promise<void> {
  using recorder = newRecorder(options.worker);
  await using managers = await Managers.open(options.spec, recorder);
  using store = new FencedStore(options.storePath);
  const random = randomOf(options.seed);
  const does = (habit: keyof Habits) => random() * 1_000 < options.habits[habit];
  const work: Work = { ...options, managers, store, random, recorder, does };
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
