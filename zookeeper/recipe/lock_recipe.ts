/**
 * The lock recipe: how our znode enters the queue of a lock, and how we wait until it is the first one.
 * Our znode itself is in `own_znode.ts`, the order of the queue in `order.ts`.
 *
 * @module
 * @see {@link https://zookeeper.apache.org/doc/current/recipes.html#sc_recipes_Locks}
 * @see {@link https://github.com/apache/curator/blob/master/curator-recipes/src/main/java/org/apache/curator/framework/recipes/locks/LockInternals.java}
 */
import { abortable } from "../../core/abort.ts";
import { type Clock, pause } from "../../core/clock.ts";
import type { WaitInfo } from "../../core/distributed_lock.ts";
import { LockSetupError } from "../../core/errors.ts";
import type { OutageBudget } from "../../core/outage_budget.ts";
import { hasCode } from "../transport/errors.ts";
import type { QueueEntry } from "./order.ts";
import { ownZnodeGone } from "./own_watch.ts";
import type { OwnZnode } from "./own_znode.ts";
import { PredecessorWatch } from "./predecessor_watch.ts";
import type { QueuePosition } from "./queue_view.ts";
import type { Listing, SharedQueue } from "./shared_queues.ts";

/**
 * Maximum age, in ms, of a `tryAcquire()` znode that does not hold the lock. An older one is taken
 * for the holder's.
 */
const MAX_TRY_AGE_MS = 100;

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
 * 3. If not, watch the znode directly before ours (the predecessor), and our own.
 * 4. Sleep until one of the watches fires or the connection changes. Then list the children, and go to 2.
 *    (The listing is skipped when our znode is certainly the first one now.)
 *
 * The recipe never deletes our znode: the caller does, to release the lock or to leave the queue.
 *
 * Both methods reject with a `ZooKeeperError` if the caller must start over with a new znode (our znode
 * was deleted, the session is over, or the create could not be sent), or if ZooKeeper refuses a request;
 * with a `LockUnavailableError` if an outage lasts too long; with a `LockSetupError` if the sequence
 * numbers are used up; and with the reason of the budget's signal when that aborts.
 */
export class LockRecipe {
  readonly #options: LockRecipeOptions;
  /** The epoch of the connection on which the queue was last listed. */
  #listedEpoch = -1;
  /** The fencing token, if a listing has shown it; see {@linkcode LockRecipe.fencingToken}. */
  #token: bigint | null = null;

  /** Sends nothing yet. */
  constructor(options: LockRecipeOptions) {
    this.#options = options;
  }

  /**
   * Enters the queue and waits until our znode is the first one. Then the lock is ours.
   *
   * @param onWait Called with our position before the first wait, and whenever the position changes.
   * @returns `true`, when the lock is ours.
   */
  async waitForTurn(onWait?: (info: WaitInfo) => void): Promise<true> {
    let reported = 0;
    let place = await this.#enter();
    while (place.predecessor !== null) {
      const position = place.ahead;
      if (position !== reported) onWait?.({ position, waiters: place.waiterCount });
      reported = position;
      if (await this.#waitForPredecessor(place.predecessor, position)) break;
      place = await this.#readQueue();
    }
    return this.#isFirst();
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
   * @returns Whether the lock is ours. If not, the caller must delete our znode soon.
   */
  async tryWin(): Promise<boolean> {
    let place = await this.#enter();
    const enteredMs = this.#options.clock.now();
    while (place.ahead > 0) {
      if (!place.isBehindTriesOnly) return false;
      if (!await this.#waitForTry(place.first, enteredMs)) return false;
      place = await this.#readQueue();
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
    const { znode: { watch }, budget } = this.#options;
    if (watch.znode === null && this.#token === null) await budget.ask(() => watch.set());
    return watch.znode?.czxid ?? this.#token!;
  }

  /**
   * Creates our znode and returns its position. Sends the create and the listing together: ZooKeeper
   * executes the requests of a session in order, so after one round trip the listing contains our znode
   * and all znodes before it.
   */
  async #enter(): Promise<QueuePosition> {
    const { clock, znode, queue, budget } = this.#options;
    for (;;) {
      const sentMs = clock.now();
      const creating = znode.create();
      const listing = queue.list();
      listing.catch(() => {}); // If the create fails, only its error counts.
      try {
        await abortable(creating, budget.signal);
        return await this.#readQueue(listing);
      } catch (error) {
        if (znode.name !== null) throw error;
        await this.#recoverCreate(error, sentMs);
      }
      if (znode.name !== null) return await this.#readQueue();
    }
  }

  /**
   * Recovers from a failed create: creates the lock's znode if that was missing, or searches for our
   * znode if the create may have been executed. Unless our znode is found, the caller sends the create
   * again. Throws the error of the create if neither applies.
   */
  async #recoverCreate(error: unknown, sentMs: number): Promise<void> {
    const { znode, budget } = this.#options;
    const { session } = znode;
    if (hasCode(error, "NO_NODE")) {
      await budget.ask(() => session.requests.makePath(znode.lockPath));
      return;
    }
    budget.beganAt(Math.max(sentMs, session.requests.lastAnswerMs));
    if (znode.isCreateAmbiguous && !session.isOver) {
      await budget.ask(() => znode.resolveAmbiguousCreate());
    } else throw error;
  }

  /**
   * Waits until the znode directly before ours, our own znode or the connection changes. Each waiter
   * watches a different predecessor, so a release wakes one waiter only.
   *
   * @returns `true` if our znode is certainly the first one now. With `false`, the queue must be listed
   * again.
   */
  async #waitForPredecessor(entry: QueueEntry, ahead: number): Promise<boolean> {
    const { znode, queue, budget } = this.#options;
    const { session, watch } = znode;
    const predecessor = new PredecessorWatch(session, this.#pathOf(entry));
    watch.listen(predecessor);
    try {
      const [found] = await Promise.all([predecessor.set(budget), budget.ask(() => watch.set())]);
      if (found !== null) await this.#sleep(predecessor.changed);
    } finally {
      predecessor.remove();
      watch.listen(null);
    }
    // New znodes get greater numbers, so none can get ahead of ours. (After an overflow they get negative
    // ones, but then the client that made such a znode does not take the lock.) If the one directly ahead
    // was the first one and was deleted, and our own watch is still set, on the connection that listed the
    // queue, then our znode is the first one, and no listing is needed.
    const wasFirst = ahead === 1 || queue.wasFirst(entry.name);
    return predecessor.isDeleted && wasFirst && watch.state === "set" &&
      session.requests.epoch === this.#listedEpoch;
  }

  /**
   * Sleeps until `changed` aborts. Meanwhile it checks at intervals that the server answers: the client
   * package does not notice a dead connection.
   */
  async #sleep(changed: AbortSignal): Promise<void> {
    const { clock, znode: { session }, budget } = this.#options;
    const signal = AbortSignal.any([changed, budget.signal]);
    while (!signal.aborted) {
      await pause(clock, session.checkEveryMs, signal);
      if (!signal.aborted) await budget.ask(() => session.checkServer());
    }
    budget.signal.throwIfAborted();
  }

  /**
   * Waits for a change while a `tryAcquire()` znode before ours is so young that it may have failed.
   *
   * @param entry The znode.
   * @param enteredMs A moment, in monotonic ms, at which our own znode existed already.
   * @returns `false` if the znode is so old now that it is taken for the holder's; `true` if it was
   * deleted or something else has changed, so that the queue must be listed again.
   */
  async #waitForTry(entry: QueueEntry, enteredMs: number): Promise<boolean> {
    const { clock, znode: { session, watch }, budget } = this.#options;
    const predecessor = new PredecessorWatch(session, this.#pathOf(entry));
    try {
      const [found] = await Promise.all([predecessor.set(budget), budget.ask(() => watch.set())]);
      if (found === null) return true;
      const { changed } = predecessor;
      // Its age: how much older than ours it is, by the servers' clock, and the time since we entered.
      const olderMs = Math.max(0, watch.znode!.createdAtMs - found.createdAtMs);
      const leftMs = MAX_TRY_AGE_MS - olderMs - (clock.now() - enteredMs);
      if (leftMs > 0) await pause(clock, leftMs, AbortSignal.any([changed, budget.signal]));
      budget.signal.throwIfAborted();
      return changed.aborted;
    } finally {
      predecessor.remove();
    }
  }

  /**
   * Returns our position, from the given listing or, without one or if it fails, from a new one. Rejects
   * with `OWN_ZNODE_GONE` if our znode is not listed.
   */
  async #readQueue(listing?: Promise<Listing>): Promise<QueuePosition> {
    const { znode, queue, budget } = this.#options;
    let given = listing;
    const { view, pzxid, epoch } = await budget.ask(() => {
      const next = given ?? queue.list();
      given = undefined;
      return next;
    }).catch((error) => {
      throw hasCode(error, "NO_NODE") ? ownZnodeGone() : error;
    });
    const place = view.positionOf(znode.name!);
    if (place === null) throw ownZnodeGone();
    if (!place.isOrderKnown) throw this.#outOfNumbers();
    if (place.isOnlyChild) this.#token ??= pzxid;
    this.#listedEpoch = epoch;
    return place;
  }

  /** Records that our znode is the first one. */
  #isFirst(): true {
    const { znode, queue } = this.#options;
    queue.recordFirst(znode.name!);
    return true;
  }

  #pathOf({ name }: QueueEntry): string {
    return `${this.#options.znode.lockPath}/${name}`;
  }

  #outOfNumbers(): LockSetupError {
    const { name, znode: { lockPath } } = this.#options;
    return new LockSetupError(
      `Cannot order the waiters for the lock ${JSON.stringify(name)}: the sequence numbers of ` +
        `${JSON.stringify(lockPath)} are used up. Delete that znode when nobody uses it`,
      name,
    );
  }
}
