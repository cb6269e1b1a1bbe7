/**
 * The lock recipe: entering the queue of a lock, and waiting in it.
 *
 * @module
 * @see {@link https://zookeeper.apache.org/doc/current/recipes.html#sc_recipes_Locks}
 * @see {@link https://github.com/apache/curator/blob/master/curator-recipes/src/main/java/org/apache/curator/framework/recipes/locks/LockInternals.java}
 */
import { abortable } from "../../core/abort.ts";
import { type Clock, pause } from "../../core/clock.ts";
import { LockUnavailableError } from "../../core/errors.ts";
import { type OwnZnode, ownZnodeGone } from "./own_znode.ts";
import type { OutageBudget } from "../../core/outage_budget.ts";
import { type Contender, isBrief, isOrderKnown, type Standing, standingOf } from "./order.ts";
import { hasCode } from "../transport/errors.ts";
import type { Children, WatchEvent, Znode } from "../transport/transport.ts";

/** How old a znode is at most in ms that is of somebody who does not wait, and has not got the lock. */
const BRIEF_MS = 100;

/** What a contest needs. */
export interface ContestOptions {
  readonly clock: Clock;
  /** The name of the lock, for errors. */
  readonly name: string;
  readonly znode: OwnZnode;
  readonly budget: OutageBudget;
}

/** A listing, and the connection that it came by. */
interface Listing {
  readonly children: Children;
  readonly epoch: number;
}

/** What ends the sleep of a waiter. */
class Wake {
  readonly #controller = new AbortController();
  /** Whether it was the deletion of the znode before ours, and nothing else. */
  isFreed = false;

  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  up(isFreed: boolean): void {
    if (this.signal.aborted) return;
    this.isFreed = isFreed;
    this.#controller.abort();
  }
}

/** One znode's way through the queue. */
export class Contest {
  readonly #options: ContestOptions;
  #listedAtEpoch = -1;
  #token: bigint | null = null;

  /** Asks for nothing yet. */
  constructor(options: ContestOptions) {
    this.#options = options;
  }

  /**
   * Enters the queue. The create and the listing leave in one tick: ZooKeeper keeps the order of a
   * session's requests, so the listing shows our znode and all before it, after one round trip.
   *
   * @returns Where our znode stands; nobody ahead means that the lock is ours.
   */
  async enter(): Promise<Standing> {
    const { znode, budget } = this.#options;
    for (;;) {
      const creating = znode.create();
      const listing = this.#list();
      listing.catch(() => {}); // The answer to the create decides.
      try {
        await abortable(creating, budget.signal);
        return await this.#look(listing);
      } catch (error) {
        if (znode.name !== null) throw error;
        await this.#mend(error);
      }
      if (znode.name !== null) return await this.#look();
    }
  }

  /**
   * Waits until something happens to the znode before ours. It alone is watched, so one waiter wakes
   * for each handoff.
   *
   * @param standing Where our znode stood.
   * @returns Where it stands now.
   */
  async next({ own, ahead, waiters }: Standing): Promise<Standing> {
    const { znode, budget } = this.#options;
    const { session } = znode;
    const before = `${znode.parent}/${ahead.at(-1)!.name}`;
    const wake = new Wake();
    const watcher = (event: WatchEvent) => wake.up(event === "deleted");
    const stop = session.onChange(() => wake.up(false));
    znode.onChange(() => wake.up(false));
    try {
      const [predecessor] = await Promise.all([
        this.#watch(before, watcher),
        budget.ask(() => znode.watch()),
      ]);
      if (predecessor !== null) await this.#sleep(wake);
    } finally {
      stop();
      znode.onChange(null);
      session.unwatch(before, watcher);
    }
    // Lower numbers only ever go. If the last of them went, on the connection that listed it, and our
    // own znode did not go as well, there is nobody left to ask about.
    const isOurs = wake.isFreed && ahead.length === 1 && znode.isWatched &&
      session.epoch === this.#listedAtEpoch;
    return isOurs ? { own, ahead: [], waiters, isAlone: false } : await this.#look();
  }

  /**
   * Whether the lock is ours without waiting for anybody who holds it. Those who do not wait either,
   * and came a moment before us, may go without ever having had it: they are given that moment.
   *
   * @returns Whether the lock is ours; `false` only if somebody else has it or waits for it.
   */
  async wins(): Promise<boolean> {
    let standing = await this.enter();
    const enteredMs = this.#options.clock.now();
    while (standing.ahead.length > 0) {
      if (!standing.ahead.every(isBrief) || !await this.#goes(standing.ahead[0]!, enteredMs)) {
        return false;
      }
      standing = await this.#look();
    }
    return true;
  }

  /** Whether somebody who does not wait goes while still too young to be taken for the holder. */
  async #goes({ name }: Contender, enteredMs: number): Promise<boolean> {
    const { clock, znode, budget } = this.#options;
    const path = `${znode.parent}/${name}`;
    const wake = new Wake();
    const watcher = () => wake.up(false);
    const stop = znode.session.onChange(watcher);
    try {
      const [first] = await Promise.all([
        this.#watch(path, watcher),
        budget.ask(() => znode.watch()),
      ]);
      if (first === null) return true;
      const olderMs = Math.max(0, znode.madeMs! - first.madeMs);
      const leftMs = BRIEF_MS - olderMs - (clock.now() - enteredMs);
      if (leftMs > 0) await pause(clock, leftMs, AbortSignal.any([wake.signal, budget.signal]));
      budget.signal.throwIfAborted();
      return wake.signal.aborted;
    } finally {
      stop();
      znode.session.unwatch(path, watcher);
    }
  }

  /**
   * The fencing token: the zxid of our znode's creation. If it was alone when first listed, that is
   * known already: it is the last change to the parent's children. (Or the delete of another one came
   * right behind our create. That is greater than all tokens before, and less than all that follow.)
   */
  async token(): Promise<bigint> {
    const { znode, budget } = this.#options;
    if (znode.czxid === null && this.#token === null) await budget.ask(() => znode.watch());
    return znode.czxid ?? this.#token!;
  }

  /** The create failed: makes it possible, or finds out whether it was executed all the same. */
  async #mend(error: unknown): Promise<void> {
    const { znode, budget } = this.#options;
    const { session } = znode;
    if (hasCode(error, "NO_NODE")) await budget.ask(() => session.makePath(znode.parent));
    else if (znode.isDoubtful && !session.isOver) await budget.ask(() => znode.settleDoubt());
    else throw error;
  }

  async #list(): Promise<Listing> {
    const { session, parent } = this.#options.znode;
    const { epoch } = session;
    return { children: await session.children(parent), epoch };
  }

  /** Where we stand, by the listing under way or another one. */
  async #look(listing?: Promise<Listing>): Promise<Standing> {
    const { znode, budget } = this.#options;
    let given = listing;
    const { children, epoch } = await budget.ask(() => {
      const next = given ?? this.#list();
      given = undefined;
      return next;
    }).catch((error) => {
      throw hasCode(error, "NO_NODE") ? ownZnodeGone() : error;
    });
    const standing = standingOf(children.names, znode.name!);
    if (standing === null) throw ownZnodeGone();
    if (!isOrderKnown(children.names, standing.own)) throw this.#outOfNumbers();
    if (standing.isAlone) this.#token ??= children.pzxid;
    this.#listedAtEpoch = epoch;
    return standing;
  }

  /** Watches a znode; `null` if it is gone. `exists` would leave a watch on one that is gone. */
  async #watch(path: string, watcher: (event: WatchEvent) => void): Promise<Znode | null> {
    const { znode, budget } = this.#options;
    try {
      return await budget.ask(() => znode.session.get(path, watcher));
    } catch (error) {
      if (hasCode(error, "NO_NODE")) return null;
      throw error;
    }
  }

  /** Sleeps, but looks now and then whether the server is alive: the client package does not. */
  async #sleep(wake: Wake): Promise<void> {
    const { clock, znode: { session }, budget } = this.#options;
    const signal = AbortSignal.any([wake.signal, budget.signal]);
    while (!signal.aborted) {
      await pause(clock, session.pingEveryMs, signal);
      if (!signal.aborted) await budget.ask(() => session.ping());
    }
    budget.signal.throwIfAborted();
  }

  #outOfNumbers(): LockUnavailableError {
    const { name, znode: { parent } } = this.#options;
    return new LockUnavailableError(
      `Cannot order those who want the lock ${JSON.stringify(name)}: the sequence numbers of ` +
        `${JSON.stringify(parent)} are used up. Delete that znode when nobody uses it`,
      name,
    );
  }
}
