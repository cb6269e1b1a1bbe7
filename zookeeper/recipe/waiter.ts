/**
 * The wait of one znode of ours for its blockers, the znodes ahead of it that keep it from the lock: all, or
 * if it is shared the exclusive ones.
 *
 * 1. Behind other waiters of this instance it only watches itself, and sleeps until it is the first of
 *    them, or shared like all of them.
 * 2. Then it watches its predecessor, the nearest blocker, and itself, and sleeps until one of the two or
 *    the connection changes. Each instance watches another predecessor, unless shared waiters have the
 *    same one, so a release wakes only waiters that it lets in.
 * 3. When the predecessor has left, it reads whether the other blockers still exist. If none does, the lock
 *    is its own. After any other change it lists the queue again. Then it goes on with 2.
 *
 * A holder of this instance that leaves counts as deleted at once if no znode was ahead of it when it was
 * granted the lock, and if both znodes certainly existed together.
 *
 * @module
 */
import { abortable, type Clock, settledWithin } from "../../core/time/clock.ts";
import type { LockMode, WaitInfo } from "../../core/contract/distributed_lock.ts";
import type { OutageBudget } from "../../core/time/outage_budget.ts";
import { nullIfMissing } from "../connection/failures.ts";
import type { Watcher } from "../connection/watches.ts";
import type { WatchEvent, Znode } from "../connection/wire.ts";
import { type OwnZnode, ownZnodeGone } from "./own_znode.ts";
import { isSharedName, type QueueEntry, type QueueView } from "./queue_order.ts";
import type { QueueWaiter } from "./shared_queue.ts";

/** A read of one entry costs the server and the network about as much as so many entries of a listing. */
const LISTED_PER_READ = 8;

/** Maximum age, in ms, of a `tryAcquire()` znode that does not hold the lock. */
const MAX_TRY_AGE_MS = 100;

/** The blockers that may still exist. The last one is the nearest. */
interface EntriesAhead extends ReturnType<QueueView["blockersOf"]> {
  /**
   * The listing that shows them, and ours. Without one, the only entry is the holder of our instance, which
   * the sequence numbers show to be directly ahead of ours: if it exists.
   */
  readonly view: QueueView | null;
  /** The connection on which this was known first. */
  readonly epoch: number;
}

/** The entry that we wait for: the nearest blocker, or of several `tryAcquire()` ones the first. */
interface Predecessor {
  readonly name: string;
  /** Whether it has certainly existed together with our znode. */
  isCertain: boolean;
  isDeleted: boolean;
}

/** One wait, for one znode: call either `untilFree()` once, or `changesInTime()`. */
export class Waiter implements QueueWaiter, Watcher {
  readonly sequence: number;
  readonly mode: LockMode;
  isLooking = false;
  readonly #znode: OwnZnode;
  readonly #clock: Clock;
  readonly #budget: OutageBudget;
  #predecessor: Predecessor | null = null;
  /** Resolves to end the sleep; `null` once it has. */
  #sleeping: PromiseWithResolvers<void> | null = null;

  /** @param znode Our znode, which must have been created. */
  constructor(znode: OwnZnode, clock: Clock, budget: OutageBudget) {
    this.sequence = znode.sequence;
    this.mode = znode.mode;
    this.#znode = znode;
    this.#clock = clock;
    this.#budget = budget;
  }

  /** Waits until no blocker is left: then the lock is ours. `report` gets our position at each listing. */
  async untilFree(report: (info: WaitInfo) => void): Promise<void> {
    const { queue } = this.#znode;
    queue.startWait(this);
    try {
      while (!this.isLooking) await this.#sleep(null);
      let ahead = this.#knownAhead();
      while (ahead?.entries.length !== 0) {
        if (ahead === null) {
          const view = await this.list();
          const { blockers, turn, waiterCount } = this.#znode.positionIn(view);
          if (blockers > 0) report({ position: turn, waiters: waiterCount });
          ahead = this.#aheadIn(view);
        } else ahead = await this.#waitForNearest(ahead);
      }
      if (ahead.isAll) queue.recordFirst(this.#znode);
    } finally {
      queue.endWait(this);
    }
  }

  list(): Promise<QueueView> {
    const { session, queue } = this.#znode;
    return session.ask(this.#budget, () => queue.list());
  }

  /** Returns the blockers that this instance knows already, at least one; `null` to list the queue. */
  #knownAhead(): EntriesAhead | null {
    const { queue: { latest, holder }, session: { epoch }, name } = this.#znode;
    // No entry has a number between the two. (If both are shared, a listing must show that ours exists.)
    if (
      holder?.sequence === this.sequence - 1 && !holder.isLeaving &&
      (this.mode === "exclusive" || !isSharedName(holder.name))
    ) return { entries: [holder], isAll: true, view: null, epoch };
    // A new listing must confirm that our znode still exists, and the order.
    if (!latest?.positionOf(name)?.isOrderKnown) return null;
    const ahead = this.#aheadIn(latest);
    return ahead.entries.length === 0 ? null : ahead;
  }

  /** The blockers in a listing, without those gone since: an entry of ours behind them was the first. */
  #aheadIn(view: QueueView): EntriesAhead {
    const { queue: { holder }, name } = this.#znode;
    return { ...view.blockersOf(name, holder?.name), view, epoch: view.epoch };
  }

  /**
   * Waits until the nearest entry, our own znode or the connection changes. Returns those that still exist; `null` if
   * the queue must be listed again.
   */
  async #waitForNearest(ahead: EntriesAhead): Promise<EntriesAhead | null> {
    const { name } = ahead.entries.at(-1)!;
    const { holder } = this.#znode.queue;
    if (holder?.isLeaving && holder.name === name) { // a listing has shown both
      await this.#watch(null);
      return await this.#existing(ahead);
    }
    const predecessor = { name, isCertain: ahead.view !== null, isDeleted: false };
    await this.#sleep(predecessor);
    return predecessor.isDeleted ? await this.#existing(ahead) : null;
  }

  /**
   * Which blockers still exist, except the nearest one, which has left. If there is none, the lock is ours: no new
   * znode gets ahead of it. (After an overflow new numbers are negative, but a client that gets one does not take the
   * lock.) `null` if our own watch is not set any more, on the same connection, or if a listing is cheaper.
   */
  async #existing(ahead: EntriesAhead): Promise<EntriesAhead | null> {
    const { view, epoch } = ahead;
    const { session } = this.#znode;
    const entries = ahead.entries.slice(0, -1);
    if (entries.length * LISTED_PER_READ > (view?.size ?? 0)) return null;
    const exist = await Promise.all(entries.map((entry) => this.#exists(entry)));
    if (this.#znode.watchState !== "set" || session.epoch !== epoch) return null;
    return { ...ahead, entries: entries.filter((_, i) => exist[i]) };
  }

  async #exists(entry: QueueEntry): Promise<boolean> {
    const { session, queue } = this.#znode;
    const path = `${queue.path}/${entry.name}`;
    const found = session.ask(this.#budget, () => session.get(path));
    return await found.catch(nullIfMissing) !== null;
  }

  /**
   * Waits while a `tryAcquire()` znode ahead of ours is so young that it may have failed. Returns whether to list the
   * queue again; else it is taken for the holder's. At `enteredMs`, in monotonic ms, our own znode existed already.
   */
  async changesInTime({ name }: QueueEntry, enteredMs: number): Promise<boolean> {
    return await this.#sleep({ name, isCertain: true, isDeleted: false }, (found) => {
      // Its age: how much older than ours it is, by the servers' clock, and the time since we entered.
      const olderMs = Math.max(0, this.#znode.found!.createdAtMs - found.createdAtMs);
      return MAX_TRY_AGE_MS - olderMs - (this.#clock.now() - enteredMs);
    });
  }

  /**
   * Sleeps until our znode, the predecessor or the connection changes. Returns whether that was so before the time
   * that `limitOf` returns, in ms, was over.
   */
  async #sleep(
    predecessor: Predecessor | null,
    limitOf?: (found: Znode) => number,
  ): Promise<boolean> {
    const { session, queue } = this.#znode;
    const { promise: woken } = this.#sleeping = Promise.withResolvers<void>();
    session.listen(this);
    this.#znode.listener = this;
    try {
      const found = await this.#watch(predecessor);
      const change = found === null || limitOf === undefined
        ? woken.then(() => true)
        : settledWithin(this.#clock, woken, limitOf(found));
      return await abortable(change, this.#budget.signal);
    } finally {
      session.unlisten(this);
      if (this.#predecessor !== null) {
        session.watches.remove(`${queue.path}/${this.#predecessor.name}`, this);
      }
      this.#predecessor = null;
      this.onChange(); // ends the timer
    }
  }

  /**
   * Sets the watch on the predecessor, and then that on our znode. Returns the predecessor, or `null` if it was
   * deleted: that ends the sleep. (The request `exists` would also set a watch on a missing znode, which nothing
   * would ever remove.)
   */
  async #watch(predecessor: Predecessor | null): Promise<Znode | null> {
    this.#predecessor = predecessor;
    const { session, queue } = this.#znode;
    const finding = predecessor === null ? null : session.ask(this.#budget, () => {
      // In an outage this may be repeated when our own znode is known to be gone: the sleep is over then.
      if (this.#predecessor !== predecessor) return Promise.reject(ownZnodeGone());
      return session.get(`${queue.path}/${predecessor.name}`, this);
    }).then((found) => {
      predecessor.isCertain = true; // both exist now
      return found;
    }, nullIfMissing);
    const watching = session.ask(this.#budget, () => this.#znode.watch());
    const [found] = await Promise.all([finding, watching]);
    if (predecessor === null || found !== null) return found;
    if (predecessor.isCertain) this.onWatchEvent("deleted");
    else this.onChange();
    return null;
  }

  onWatchEvent(event: WatchEvent): void {
    if (this.#sleeping === null) return; // something else has changed before
    this.#predecessor!.isDeleted = event === "deleted";
    this.onChange();
  }

  onChange(): void {
    this.#sleeping?.resolve();
    this.#sleeping = null;
  }

  /** The delete of our predecessor need not be awaited: it does not hold the lock, and nothing was ahead of it. */
  onHolderLeaving({ name }: QueueEntry, isCertain: boolean): void {
    const predecessor = this.#predecessor;
    if (predecessor?.name !== name) return;
    // Numbers begin again when the lock's znode is deleted, so the two must have existed together.
    if (isCertain || predecessor.isCertain) this.onWatchEvent("deleted");
  }
}
