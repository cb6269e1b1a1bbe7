/**
 * The wait of one znode of ours for those before it. In which order the calls of an instance wait is in
 * `own_waiters.ts`.
 *
 * @module
 */
import { abortable } from "../../core/abort.ts";
import type { OutageBudget } from "../../core/outage_budget.ts";
import { askIn } from "../session/ask.ts";
import { hasCode } from "../transport/errors.ts";
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
  /** The listing that shows them. */
  readonly listing: Listing;
}

/** Waits for the znodes before ours. */
export class Predecessors {
  readonly #znode: OwnZnode;
  readonly #budget: OutageBudget;

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
  async waitForNearest({ entries, listing }: EntriesAhead): Promise<EntriesAhead | null> {
    const { session, watch } = this.#znode;
    const sleep = new Sleep();
    const nearest = new PredecessorWatch(session, this.#pathOf(entries.at(-1)!), sleep);
    const watching = async () => {
      const [found] = await Promise.all([
        this.#ask(() => nearest.set()),
        this.#ask(() => watch.set()),
      ]);
      if (found === null) nearest.onWatchEvent("deleted");
    };
    try {
      await this.sleep(sleep, watching());
    } finally {
      nearest.remove();
    }
    if (!nearest.isDeleted) return null;
    return await this.#existing({ entries: entries.slice(0, -1), listing });
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
   * Returns which entries ahead of ours still exist. If there is none, our znode is certainly the first one:
   * new znodes get greater numbers, so none can get ahead of ours. (After an overflow they get negative
   * ones, but then the client that made such a znode does not take the lock.) This needs our own watch to
   * be still set, on the connection that listed the queue.
   *
   * @returns The entries; `null` if the queue must be listed again.
   */
  async #existing({ entries, listing }: EntriesAhead): Promise<EntriesAhead | null> {
    const { session: { requests }, watch } = this.#znode;
    if (entries.length * LISTED_PER_READ > listing.view.size && entries.length > 0) return null;
    const exist = await Promise.all(entries.map((entry) => this.#exists(entry)));
    if (watch.state !== "set" || requests.epoch !== listing.epoch) return null;
    return { entries: entries.filter((_, i) => exist[i]), listing };
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
