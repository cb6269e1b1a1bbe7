/**
 * How long `tryAcquire()` waits for another `tryAcquire()` that is before it.
 *
 * @module
 */
import { abortable, type Clock, settledWithin } from "../../core/time/clock.ts";
import type { OutageBudget } from "../../core/time/outage_budget.ts";
import { askIn } from "../session/ask.ts";
import type { OwnZnode } from "./own_znode.ts";
import { PredecessorWatch, Sleep } from "./predecessor_watch.ts";

/**
 * Maximum age, in ms, of a `tryAcquire()` znode that does not hold the lock. An older one is taken
 * for the holder's.
 */
const MAX_TRY_AGE_MS = 100;

/** The options of {@linkcode outlivesTry}. */
export interface TryWaitOptions {
  readonly clock: Clock;
  /** Our own znode. */
  readonly znode: OwnZnode;
  readonly budget: OutageBudget;
  /** A moment, in monotonic ms, at which our own znode existed already. */
  readonly enteredMs: number;
}

/**
 * Waits for a change while a `tryAcquire()` znode before ours is so young that it may have failed.
 *
 * @param name The name of that znode.
 * @returns `false` if that znode is so old now that it is taken for the holder's; `true` if it was
 * deleted or something else has changed, so that the queue must be listed again.
 */
export async function outlivesTry(name: string, options: TryWaitOptions): Promise<boolean> {
  const { clock, znode: { session, watch, lockPath }, budget, enteredMs } = options;
  const sleep = new Sleep();
  const predecessor = new PredecessorWatch(session, `${lockPath}/${name}`, sleep);
  session.addListener(sleep);
  try {
    const [found] = await Promise.all([
      askIn(session, budget, () => predecessor.set()),
      askIn(session, budget, () => watch.set()),
    ]);
    if (found === null) return true;
    // Its age: how much older than ours it is, by the servers' clock, and the time since we entered.
    const olderMs = Math.max(0, watch.znode!.createdAtMs - found.createdAtMs);
    const leftMs = MAX_TRY_AGE_MS - olderMs - (clock.now() - enteredMs);
    if (leftMs <= 0) return sleep.isOver;
    return await abortable(settledWithin(clock, sleep.over, leftMs), budget.signal);
  } finally {
    session.removeListener(sleep);
    predecessor.remove();
    sleep.end();
  }
}
