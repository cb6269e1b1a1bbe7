/**
 * The lock recipe: how our znode enters the queue of a lock, and how we wait until it is the first one.
 * Our znode itself is in `own_znode.ts`, the order of the queue in `order.ts`.
 *
 * @module
 * @see {@link https://zookeeper.apache.org/doc/current/recipes.html#sc_recipes_Locks}
 * @see {@link https://github.com/apache/curator/blob/master/curator-recipes/src/main/java/org/apache/curator/framework/recipes/locks/LockInternals.java}
 */
import type { Clock } from "../../core/time/clock.ts";
import type { WaitInfo } from "../../core/contract/distributed_lock.ts";
import { LockSetupError } from "../../core/contract/errors.ts";
import type { OutageBudget } from "../../core/time/outage_budget.ts";
import { Entrance } from "./entrance.ts";
import { isInRange, sequenceOf } from "./order.ts";
import { ownZnodeGone } from "./own_watch.ts";
import type { OwnHolder, OwnWaiter } from "./own_waiters.ts";
import type { OwnZnode } from "./own_znode.ts";
import { Sleep } from "./predecessor_watch.ts";
import { type EntriesAhead, Predecessors } from "./predecessors.ts";
import type { QueuePosition } from "./queue_view.ts";
import type { Listing, SharedQueue } from "./shared_queues.ts";
import { outlivesTry } from "./try_wait.ts";
import { positionIn, reporter } from "./wait_report.ts";

/** The options of a run of the recipe. */
export interface LockRecipeOptions {
  readonly clock: Clock;
  /** The name of the lock, for error messages. */
  readonly name: string;
  /** Our own znode. It must not have been created yet: the recipe creates it. */
  readonly znode: OwnZnode;
  /** The queue, for all calls of the instance that wait in it. */
  readonly queue: SharedQueue;
  /** Repeats requests during an outage; its signal ends the wait. */
  readonly budget: OutageBudget;
}

/**
 * One run of the recipe, for one znode: call either {@linkcode LockRecipe.waitForTurn} or
 * {@linkcode LockRecipe.tryWin}, once.
 *
 * The queue of a lock is the list of the children of its znode, ordered by sequence number. The steps:
 *
 * 1. Create our znode, an ephemeral sequential child, and list the children.
 * 2. If our znode is the first one, the lock is ours.
 * 3. Watch our own znode, and wait until no other call of this instance waits before us.
 * 4. Watch the predecessor, directly before ours; if a holder of this instance leaves it, go to 2.
 * 5. Sleep until a watch fires or the connection changes. If the predecessor was deleted, look for the one
 *    before it, else list the children; go to 2.
 *
 * The recipe never deletes our znode: the caller does, to release the lock or to leave the queue.
 *
 * Both methods reject with a `ZooKeeperError` if the caller must start over with a new znode (our znode
 * was deleted, the session is over, or the create could not be sent), or if ZooKeeper refuses a request;
 * with a `LockUnavailableError` if an outage lasts too long; with a `LockSetupError` if the sequence
 * numbers are used up; and with the reason of the budget's signal when that aborts.
 */
export class LockRecipe implements OwnWaiter {
  readonly #options: LockRecipeOptions;
  readonly #entrance: Entrance;
  readonly #predecessors: Predecessors;
  /** The fencing token, if a listing has shown it; see {@linkcode LockRecipe.fencingToken}. */
  #token: bigint | null = null;
  /** The sleep while other calls of this instance wait before us. */
  #inLine: Sleep | null = null;

  /** Sends nothing yet. */
  constructor(options: LockRecipeOptions) {
    const { znode, budget } = this.#options = options;
    this.#entrance = new Entrance(options);
    this.#predecessors = new Predecessors(znode, budget);
  }

  /** The sequence number of our znode. Throws unless the znode is known to exist. */
  get sequence(): number {
    return sequenceOf(this.#options.znode.name!)!;
  }

  /**
   * Enters the queue and waits until our znode is the first one. Then the lock is ours.
   *
   * @param onWait Called with our position before the first wait, and when a listing shows another one.
   * @returns `true`, when the lock is ours.
   */
  async waitForTurn(onWait?: (info: WaitInfo) => void): Promise<true> {
    const { queue } = this.#options;
    const report = reporter(onWait);
    if (queue.hasOthersAhead) await queue.entering(this.#enterBehindOthers(onWait && report));
    else {
      const place = await queue.entering(this.#enter());
      if (place.predecessor === null) return this.#isFirst();
      report({ position: place.ahead, waiters: place.waiterCount });
    }
    queue.waiters.enter(this);
    try {
      await this.#waitInLine();
      await this.#waitForPredecessors(report);
      return this.#isFirst();
    } finally {
      queue.waiters.leave(this);
    }
  }

  /**
   * Enters the queue, but does not wait for a holder. If a znode of an `acquire()` is before ours, the
   * lock is held or other callers wait for it, and the result is `false` at once.
   *
   * If only `tryAcquire()` znodes are before ours, the first of them either holds the lock or is about
   * to be deleted; the others are in our situation. Its age decides: a failed one is deleted at once, so
   * one that is older than 100 ms is taken for the holder's. We watch the first one until it is deleted
   * (then we list the queue again) or reaches that age (then the result is `false`).
   *
   * @param onWait Called once if the result is `false`, with the number of other waiters.
   * @returns Whether the lock is ours. If not, the caller must delete our znode soon.
   */
  async tryWin(onWait?: (info: WaitInfo) => void): Promise<boolean> {
    const { clock, queue } = this.#options;
    let place = await this.#enter();
    const enteredMs = clock.now();
    while (place.ahead > 0) {
      const mayWin = place.isBehindTriesOnly &&
        await outlivesTry(place.first.name, { ...this.#options, enteredMs });
      if (!mayWin) {
        onWait?.({ waiters: place.waiterCount - 1 });
        return false;
      }
      place = this.#placeIn(await this.#entrance.read(() => queue.list()));
    }
    return this.#isFirst();
  }

  /**
   * Returns the fencing token: the zxid of our znode's create, which was read together with the watch
   * on our znode. Without a wait, that watch was not set. Then the token is taken from the listing in
   * which our znode was the only child: the zxid of the last change to the children. That change was our
   * create, or the delete of a sibling after it. Either zxid is greater than all earlier tokens and less
   * than all later ones. If there is no such listing either, our znode is read now.
   */
  async fencingToken(): Promise<bigint> {
    const { znode: { watch } } = this.#options;
    if (watch.znode === null && this.#token === null) await this.#predecessors.watchOwn();
    return watch.znode?.czxid ?? this.#token!;
  }

  onFirst(): void {
    this.#inLine?.end();
  }

  onHolderLeaving(holder: OwnHolder): void {
    this.#predecessors.onLeaving(holder, holder.next === this);
  }

  /** Creates our znode, lists the queue in the same tick, and returns our position. */
  async #enter(): Promise<QueuePosition> {
    const { queue } = this.#options;
    return this.#placeIn(await this.#entrance.createAndRead(() => queue.list()));
  }

  /**
   * Creates our znode behind other calls of this instance: only the position is of interest for now, if
   * somebody asks for it. The length of the queue, read in the same tick, shows it.
   */
  async #enterBehindOthers(report?: (info: WaitInfo) => void): Promise<void> {
    const read = async () => report === undefined ? null : await this.#options.queue.size();
    const size = await this.#entrance.createAndRead(read);
    if (!isInRange(this.sequence)) throw this.#outOfNumbers();
    if (size !== null) report!(positionIn(size, this.sequence));
  }

  /** Sleeps while other calls of this instance wait before us, with a watch on our own znode. */
  async #waitInLine(): Promise<void> {
    while (!this.#options.queue.waiters.isFirst(this)) {
      const sleep = this.#inLine = new Sleep();
      await this.#predecessors.sleep(sleep, this.#predecessors.watchOwn());
    }
  }

  /** Waits until no znode is before ours. */
  async #waitForPredecessors(report: (info: WaitInfo) => void): Promise<void> {
    let ahead = this.#aheadSoFar();
    while (ahead === null || ahead.entries.length > 0) {
      if (ahead === null) {
        const listing = await this.#entrance.read(() => this.#options.queue.list());
        const { ahead: position, waiterCount } = this.#placeIn(listing);
        if (position === 0) return;
        report({ position, waiters: waiterCount });
        ahead = this.#aheadIn(listing)!;
      }
      ahead = this.#hasLeft(ahead)
        ? await this.#predecessors.passNearest(ahead)
        : await this.#predecessors.waitForNearest(ahead);
    }
  }

  /** Returns the entries ahead of ours that this instance knows; `null` to list again. */
  #aheadSoFar(): EntriesAhead | null {
    const { znode, queue: { latest, holder } } = this.#options;
    const { epoch } = znode.session.requests;
    // No entry has a number between the two.
    const isNext = holder?.sequence === this.sequence - 1;
    if (isNext && (!holder.isLeaving || holder.next === this)) {
      return { entries: [holder], listing: null, epoch };
    }
    const ahead = latest && this.#aheadIn(latest);
    // A new listing must confirm that our znode still exists.
    if (!ahead?.entries.length) return null;
    this.#placeIn(latest!);
    return ahead;
  }

  /** Whether the nearest entry ahead is that of a holder of this instance that leaves. */
  #hasLeft({ entries, listing }: EntriesAhead): boolean {
    const { holder } = this.#options.queue;
    if (!holder?.isLeaving || entries.at(-1)!.name !== holder.name) return false;
    return listing !== null || holder.next === this;
  }

  /** Returns the entries ahead of ours in a listing; `null` if it does not show ours. */
  #aheadIn(listing: Listing): EntriesAhead | null {
    const { znode, queue } = this.#options;
    const entries = queue.entriesAhead(listing, znode.name!);
    return entries && { entries, listing, epoch: listing.epoch };
  }

  /** Returns our position. Throws `OWN_ZNODE_GONE` if our znode is not listed. */
  #placeIn({ view, pzxid }: Listing): QueuePosition {
    const place = view.positionOf(this.#options.znode.name!);
    if (place === null) throw ownZnodeGone();
    if (!place.isOrderKnown) throw this.#outOfNumbers();
    if (place.isOnlyChild) this.#token ??= pzxid;
    return place;
  }

  /** Records that our znode is the first one. */
  #isFirst(): true {
    const { znode, queue } = this.#options;
    queue.recordFirst({ name: znode.name!, sequence: this.sequence });
    return true;
  }

  #outOfNumbers(): LockSetupError {
    const { name, znode } = this.#options;
    const [lock, path] = [name, znode.lockPath].map((text) => JSON.stringify(text));
    const message =
      `Cannot order the waiters for the lock ${lock}: the sequence numbers of ${path} ` +
      "are used up. Delete that znode when nobody uses it";
    return new LockSetupError(message, name);
  }
}
