/**
 * The lock recipe: a znode enters the queue of a lock and waits until it is the first one.
 *
 * @module
 * @see {@link https://zookeeper.apache.org/doc/current/recipes.html#sc_recipes_Locks}
 * @see {@link https://github.com/apache/curator/blob/master/curator-recipes/src/main/java/org/apache/curator/framework/recipes/locks/LockInternals.java}
 */
import { abortable } from "../../core/abort.ts";
import { type Clock, pause } from "../../core/clock.ts";
import type { WaitInfo } from "../../core/distributed_lock.ts";
import { LockUnavailableError } from "../../core/errors.ts";
import type { OutageBudget } from "../../core/outage_budget.ts";
import { hasCode } from "../transport/errors.ts";
import type { Children } from "../transport/transport.ts";
import { isOrderKnown, isTry, positionOf, type QueueEntry, type QueuePosition } from "./order.ts";
import { ownZnodeGone } from "./own_watch.ts";
import type { OwnZnode } from "./own_znode.ts";
import { PredecessorWatch } from "./predecessor_watch.ts";

/** Maximum age, in ms, of a `tryAcquire()` znode that does not hold the lock. */
const MAX_TRY_AGE_MS = 100;

/** The options of a run of the recipe. */
export interface LockRecipeOptions {
  readonly clock: Clock;
  /** The name of the lock, for error messages. */
  readonly name: string;
  /** Our own znode, which was not created yet. */
  readonly znode: OwnZnode;
  /** Repeats requests during an outage; its signal ends the wait. */
  readonly budget: OutageBudget;
}

/** The children of the lock's znode, and the connection on which they were listed. */
interface Listing {
  readonly children: Children;
  readonly epoch: number;
}

/**
 * One run of the recipe, for one znode: call either {@linkcode LockRecipe.waitForTurn} or
 * {@linkcode LockRecipe.tryWin}, once.
 *
 * Both reject with a `ZooKeeperError` `OWN_ZNODE_GONE` or `SESSION_OVER` if the caller must start over
 * with a new znode, and with a `LockUnavailableError` if the outage lasts too long. Our znode is not
 * deleted then: the caller does that.
 */
export class LockRecipe {
  readonly #options: LockRecipeOptions;
  /** The connection on which the queue was last listed. */
  #listedEpoch = -1;
  /** The fencing token, if the first listing revealed it. */
  #token: bigint | null = null;

  /** Sends nothing yet. */
  constructor(options: LockRecipeOptions) {
    this.#options = options;
  }

  /**
   * Enters the queue and waits until our znode is the first one. Then the lock is ours.
   *
   * @param onWait Called before the first wait, and for each new position.
   * @returns `true`, when the lock is ours.
   */
  async waitForTurn(onWait?: (info: WaitInfo) => void): Promise<true> {
    let reported = 0;
    let queue = await this.#enter();
    while (queue.ahead.length > 0) {
      const position = queue.ahead.length;
      if (position !== reported) onWait?.({ position, waiters: queue.waiterCount });
      reported = position;
      if (await this.#waitForPredecessor(queue)) break;
      queue = await this.#readQueue();
    }
    return true;
  }

  /**
   * Enters the queue, but does not wait for a holder. If there are only other `tryAcquire()` znodes
   * before ours, one of them holds the lock or all of them are about to be deleted. So the first one is
   * watched until it is deleted or too old for that.
   *
   * @returns Whether the lock is ours. If not, another znode holds the lock or waits for it.
   */
  async tryWin(): Promise<boolean> {
    let queue = await this.#enter();
    const enteredMs = this.#options.clock.now();
    while (queue.ahead.length > 0) {
      if (!queue.ahead.every(isTry)) return false;
      if (!await this.#waitForTry(queue.ahead[0]!, enteredMs)) return false;
      queue = await this.#readQueue();
    }
    return true;
  }

  /**
   * Returns the fencing token: the zxid of our znode's create. If our znode was an only child in the
   * first listing, the token is the zxid of the last change to the children, without another request.
   * (A sibling's delete may have followed our create. Its zxid is still greater than all earlier tokens
   * and less than all later ones.)
   */
  async fencingToken(): Promise<bigint> {
    const { znode: { watch }, budget } = this.#options;
    if (watch.znode === null && this.#token === null) await budget.ask(() => watch.set());
    return watch.znode?.czxid ?? this.#token!;
  }

  /**
   * Sends the create and the listing together. ZooKeeper executes the requests of a session in order,
   * so the listing contains our znode and all znodes before it, after one round trip.
   */
  async #enter(): Promise<QueuePosition> {
    const { znode, budget } = this.#options;
    for (;;) {
      const creating = znode.create();
      const listing = this.#list();
      listing.catch(() => {}); // If the create fails, its error decides.
      try {
        await abortable(creating, budget.signal);
        return await this.#readQueue(listing);
      } catch (error) {
        if (znode.name !== null) throw error;
        await this.#recoverCreate(error);
      }
      if (znode.name !== null) return await this.#readQueue();
    }
  }

  /** After a failed create: makes the parent, or searches for the znode. Then the caller goes on. */
  async #recoverCreate(error: unknown): Promise<void> {
    const { znode, budget } = this.#options;
    const { session } = znode;
    if (hasCode(error, "NO_NODE")) {
      await budget.ask(() => session.requests.makePath(znode.lockPath));
    } else if (znode.isCreateAmbiguous && !session.isOver) {
      await budget.ask(() => znode.resolveAmbiguousCreate());
    } else throw error;
  }

  /**
   * Waits for a change to the znode before ours. No other waiter watches that znode, so one waiter
   * wakes for each handoff.
   *
   * @returns Whether our znode is the first one now. If not, or if that is unknown, the queue must be
   * read again.
   */
  async #waitForPredecessor({ ahead }: QueuePosition): Promise<boolean> {
    const { znode, budget } = this.#options;
    const { session, watch } = znode;
    const predecessor = new PredecessorWatch(session, this.#pathOf(ahead.at(-1)!));
    watch.listen(predecessor);
    try {
      const [found] = await Promise.all([predecessor.set(budget), budget.ask(() => watch.set())]);
      if (found !== null) await this.#sleep(predecessor.changed);
    } finally {
      predecessor.remove();
      watch.listen(null);
    }
    // A znode that is created later gets a greater number. So if the only znode before ours was
    // deleted, on the connection that listed it, and ours was not, there is nothing to ask.
    return predecessor.isDeleted && ahead.length === 1 && watch.state === "set" &&
      session.requests.epoch === this.#listedEpoch;
  }

  /** Sleeps until the signal aborts. Checks the server meanwhile: the client package does not. */
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
   * Waits for a change while a `tryAcquire()` znode is so young that it may not hold the lock.
   *
   * @returns `false` if it is too old now and so holds the lock; `true` if the queue must be read again.
   */
  async #waitForTry(entry: QueueEntry, enteredMs: number): Promise<boolean> {
    const { clock, znode: { session, watch }, budget } = this.#options;
    const predecessor = new PredecessorWatch(session, this.#pathOf(entry));
    try {
      const [found] = await Promise.all([predecessor.set(budget), budget.ask(() => watch.set())]);
      if (found === null) return true;
      const { changed } = predecessor;
      const olderMs = Math.max(0, watch.znode!.createdAtMs - found.createdAtMs);
      const leftMs = MAX_TRY_AGE_MS - olderMs - (clock.now() - enteredMs);
      if (leftMs > 0) await pause(clock, leftMs, AbortSignal.any([changed, budget.signal]));
      budget.signal.throwIfAborted();
      return changed.aborted;
    } finally {
      predecessor.remove();
    }
  }

  async #list(): Promise<Listing> {
    const { session: { requests }, lockPath } = this.#options.znode;
    const { epoch } = requests;
    return { children: await requests.children(lockPath), epoch };
  }

  /** Returns our position, from the given listing or, if that fails, from a new one. */
  async #readQueue(listing?: Promise<Listing>): Promise<QueuePosition> {
    const { znode, budget } = this.#options;
    let given = listing;
    const { children, epoch } = await budget.ask(() => {
      const next = given ?? this.#list();
      given = undefined;
      return next;
    }).catch((error) => {
      throw hasCode(error, "NO_NODE") ? ownZnodeGone() : error;
    });
    const queue = positionOf(children.names, znode.name!);
    if (queue === null) throw ownZnodeGone();
    if (!isOrderKnown(children.names, queue.own)) throw this.#outOfNumbers();
    if (queue.isOnlyChild) this.#token ??= children.pzxid;
    this.#listedEpoch = epoch;
    return queue;
  }

  #pathOf({ name }: QueueEntry): string {
    return `${this.#options.znode.lockPath}/${name}`;
  }

  #outOfNumbers(): LockUnavailableError {
    const { name, znode: { lockPath } } = this.#options;
    return new LockUnavailableError(
      `Cannot order the waiters for the lock ${JSON.stringify(name)}: the sequence numbers of ` +
        `${JSON.stringify(lockPath)} are used up. Delete that znode when nobody uses it`,
      name,
    );
  }
}
