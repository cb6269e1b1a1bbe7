/**
 * The wait of one znode of ours for those before it. In which order the calls of an instance wait is in
 * `own_waiters.ts`.
 *
 * @module
 */
import { abortable } from "../../core/time/clock.ts";
import type { OutageBudget } from "../../core/time/outage_budget.ts";
import { askIn } from "../session/ask.ts";
import { hasCode } from "../connection/failures.ts";
import type { QueueEntry } from "./order.ts";
import type { OwnZnode } from "./own_znode.ts";
import { PredecessorWatch, Sleep } from "./predecessor_watch.ts";
import type { Listing } from "./shared_queues.ts";

/**
 * Entries are read one by one where a listing would show at least this many times as many. A read costs
 * the server and the network about as much as 8 entries of a listing.
 */
const LISTED_PER_READ = 8;

/** The entries ahead of ours that may still exist. */
export interface EntriesAhead {
  /** The nearest one is the last. */
  readonly entries: readonly QueueEntry[];
  /**
   * The listing that shows them, and ours. Without one, the only entry is the holder of our instance, which
   * the sequence numbers show to be directly before ours: if it exists.
   */
  readonly listing: Listing | null;
  /** The connection on which this was known first. */
  readonly epoch: number;
}

/** Waits for the znodes before ours. */
export class Predecessors {
  readonly #znode: OwnZnode;
  readonly #budget: OutageBudget;
  /** The entry that we wait for. */
  #awaited: { readonly name: string; readonly watch: PredecessorWatch; isCertain: boolean } | null =
    null;

  /** Takes our znode. The budget repeats requests during an outage; its signal ends each wait. */
  constructor(znode: OwnZnode, budget: OutageBudget) {
    this.#znode = znode;
    this.#budget = budget;
  }

  /**
   * Waits until the znode directly before ours, our own znode or the connection changes. Each instance
   * watches another predecessor, so a release wakes one waiter only.
   *
   * @param ahead The entries ahead of ours: at least one.
   * @returns Those of them that still exist, see {@linkcode Predecessors.existing}; `null` if the queue must
   * be listed again.
   */
  async waitForNearest(ahead: EntriesAhead): Promise<EntriesAhead | null> {
    const { session } = this.#znode;
    const nearest = ahead.entries.at(-1)!;
    const sleep = new Sleep();
    const watch = new PredecessorWatch(session, this.#pathOf(nearest), sleep);
    this.#awaited = { name: nearest.name, watch, isCertain: ahead.listing !== null };
    try {
      await this.sleep(sleep, this.#watchBoth(watch, sleep));
    } finally {
      this.#awaited = null;
      watch.remove();
    }
    return watch.isDeleted ? await this.#existing(ahead) : null;
  }

  /** Returns what {@linkcode Predecessors.waitForNearest} does when the nearest entry has left already. */
  async passNearest(ahead: EntriesAhead): Promise<EntriesAhead | null> {
    await this.watchOwn();
    return await this.#existing(ahead);
  }

  /**
   * A holder of our instance leaves. If it is the entry that we wait for, its delete need not be awaited:
   * it does not hold the lock any more, and none is ahead of it. But both entries must certainly have
   * existed together: numbers begin again when the lock's znode is deleted.
   *
   * @param holder The entry of the holder.
   * @param isCertain Whether they have. (A listing that shows both, or a watch that we set, tells so, too.)
   */
  onLeaving({ name }: QueueEntry, isCertain: boolean): void {
    const awaited = this.#awaited;
    if (awaited?.name !== name) return;
    if (isCertain || awaited.isCertain || awaited.watch.isSet) {
      awaited.watch.onWatchEvent("deleted");
    }
  }

  /** Sets the watch on the nearest entry, unless that does not matter any more, and on ours. */
  async #watchBoth(nearest: PredecessorWatch, sleep: Sleep): Promise<void> {
    const [found] = await Promise.all([
      this.#ask(() => nearest.set()),
      this.watchOwn(),
    ]);
    if (found !== null) return;
    if (this.#awaited!.isCertain) nearest.onWatchEvent("deleted");
    else sleep.end();
  }

  /** Sleeps until the first change, while watches are being set. */
  async sleep(sleep: Sleep, watching: Promise<void>): Promise<void> {
    const { session, watch } = this.#znode;
    session.addListener(sleep);
    watch.listen(sleep);
    try {
      await watching;
      await abortable(sleep.over, this.#budget.signal);
    } finally {
      session.removeListener(sleep);
      watch.listen(null);
    }
  }

  /** Sets the watch on our own znode, unless it is set. */
  watchOwn(): Promise<void> {
    return this.#ask(() => this.#znode.watch.set());
  }

  /**
   * Returns which entries ahead of ours still exist, except the nearest one, which has left. If there is
   * none, our znode is certainly the first one: new znodes get greater numbers, so none can get ahead of
   * ours. (After an overflow they get negative ones, but then the client that made such a znode does not
   * take the lock.) This needs our own watch to be still set, on the same connection.
   *
   * @returns The entries; `null` if the queue must be listed again.
   */
  async #existing(ahead: EntriesAhead): Promise<EntriesAhead | null> {
    const { listing, epoch } = ahead;
    const entries = ahead.entries.slice(0, -1);
    const { session: { requests }, watch } = this.#znode;
    const listed = listing?.view.size ?? 0;
    if (entries.length > 0 && entries.length * LISTED_PER_READ > listed) return null;
    const exist = await Promise.all(entries.map((entry) => this.#exists(entry)));
    if (!watch.isConfirmed || requests.epoch !== epoch) return null;
    return { ...ahead, entries: entries.filter((_, i) => exist[i]) };
  }

  async #exists(entry: QueueEntry): Promise<boolean> {
    const { requests } = this.#znode.session;
    try {
      await this.#ask(() => requests.get(this.#pathOf(entry)));
      return true;
    } catch (error) {
      if (hasCode(error, "NO_NODE")) return false;
      throw error;
    }
  }

  #ask<T>(request: () => Promise<T>): Promise<T> {
    return askIn(this.#znode.session, this.#budget, request);
  }

  #pathOf({ name }: QueueEntry): string {
    return `${this.#znode.lockPath}/${name}`;
  }
}
