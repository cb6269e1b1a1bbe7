import type { LockMode } from "../../core/contract/distributed_lock.ts";
import { hasCode, nullIfMissing } from "../connection/failures.ts";
import type { Znode } from "../connection/wire.ts";
import type { ChangeListener, Session } from "../session/session.ts";
import { type QueueEntry, QueueView } from "./queue_order.ts";

/** Of a lock that has no znode. */
const NO_QUEUE = new QueueView({ names: [], pzxid: 0n }, -1);

/** A call that waits. */
export interface QueueWaiter extends ChangeListener {
  readonly sequence: number;
  readonly mode: LockMode;
  /** Whether it looks at the znodes ahead of it. Belongs to the queue. */
  isLooking: boolean;
  /**
   * Called, while it looks, when a holder of its instance leaves that was first in the queue. `isCertain`: both
   * entries have certainly existed together. Must not throw.
   */
  onHolderLeaving(holder: QueueEntry, isCertain: boolean): void;
}

/**
 * The queue of one lock, for all calls of an instance that have a znode in it in the same session; alone, each of
 * them would list the whole queue. None of the waiters can be granted the lock before those ahead of it, except
 * shared ones together. So only the first one, and if it is shared the shared ones directly behind it, have to know
 * which znodes of other instances are ahead, and to watch one of them.
 */
export class SharedQueue {
  readonly session: Session;
  readonly name: string;
  readonly path: string;
  /** Our znodes that are in the queue, or about to be. */
  users = 0;
  /**
   * The calls that have begun to enter the queue, and have no answer yet. One that was just answered counts
   * as a waiter only a microtask later: a call that begins between the two lists the queue for itself.
   */
  entering = 0;
  /**
   * The entry of ours that was last granted the lock with no entry ahead of it: none is, now or later. It is
   * leaving when its delete is sent, or about to be: then it does not hold the lock any more. Other holders of
   * the instance, which are shared and have shared ones ahead of them, are not known here.
   */
  holder: QueueEntry & { isLeaving: boolean } | null = null;
  /** In the order of their znodes. */
  readonly #waiters: QueueWaiter[] = [];
  /** How many of them look, from the first one. */
  #looking = 0;
  #latest: QueueView | null = null;
  /** The queues in which the instance has znodes at this time, by path. */
  readonly #queues: Map<string, SharedQueue>;

  private constructor(
    queues: Map<string, SharedQueue>,
    session: Session,
    name: string,
    path: string,
  ) {
    this.session = session;
    this.name = name;
    this.path = path;
    this.#queues = queues;
  }

  /** Returns the queue of a lock, for one znode of ours. Its calls share it while there are any. */
  static use(
    queues: Map<string, SharedQueue>,
    session: Session,
    name: string,
    path: string,
  ): SharedQueue {
    let queue = queues.get(path);
    if (queue?.session !== session) {
      queue = new SharedQueue(queues, session, name, path);
      queues.set(path, queue);
    }
    queue.users++;
    return queue;
  }

  /** Our znode will be deleted, as it needs the lock no more. `isCertain`: its watch is set, so it exists. */
  remove({ name }: QueueEntry, isCertain: boolean): void {
    const isUnused = --this.users === 0;
    if (isUnused && this.#queues.get(this.path) === this) this.#queues.delete(this.path);
    const { holder } = this;
    if (holder === null || holder.name !== name) return;
    holder.isLeaving = true;
    for (let i = 0; i < this.#looking; i++) {
      // If its watch is set, it existed when the waiter's create was answered.
      this.#waiters[i]!.onHolderLeaving(holder, isCertain);
    }
  }

  /** Lists the queue, after this call. */
  async list(): Promise<QueueView> {
    const { epoch } = this.session;
    try {
      const children = await this.session.children(this.path);
      if (this.#latest?.children !== children) this.#latest = new QueueView(children, epoch);
      return this.#latest;
    } catch (error) {
      if (!hasCode(error, "NO_NODE")) throw error;
      this.#latest = null;
      return NO_QUEUE;
    }
  }

  /** Reads how long the queue is, after this call. Children that a listing has shown not to be entries do not count. */
  async size(): Promise<Znode | null> {
    const znode = await this.session.size(this.path).catch(nullIfMissing);
    const others = this.#latest === null
      ? 0
      : this.#latest.children.names.length - this.#latest.size;
    return znode === null ? null : { ...znode, childCount: znode.childCount - others };
  }

  /** The latest listing on this connection; `null` if there is none. */
  get latest(): QueueView | null {
    return this.#latest?.epoch === this.session.epoch ? this.#latest : null;
  }

  /** Whether other calls of the instance are ahead of one that enters now, unless they fail. */
  get hasOthersAhead(): boolean {
    return this.entering > 0 || this.#waiters.length > 0;
  }

  /** Whether so few calls of the instance are in the queue that each may list it: that costs their square. */
  get isShort(): boolean {
    return this.entering + this.#waiters.length <= 32;
  }

  /** An entry of ours is granted the lock, and none is ahead of it. */
  recordFirst({ name, sequence }: QueueEntry): void {
    this.holder = { name, sequence, isLeaving: false };
  }

  /** Adds a waiter. Usually it is the last one: only after a lost answer its znode may be older. */
  startWait(waiter: QueueWaiter): void {
    let index = this.#waiters.length;
    while (index > 0 && this.#waiters[index - 1]!.sequence > waiter.sequence) index--;
    this.#waiters.splice(index, 0, waiter);
    if (index < this.#looking) {
      // Those behind it go on looking: their listings show it.
      this.#looking++;
      waiter.isLooking = true;
    } else this.#letLook();
  }

  /** Removes a waiter. Notifies those that are the first ones now. */
  endWait(waiter: QueueWaiter): void {
    const index = this.#waiters.indexOf(waiter);
    if (index === -1) return;
    this.#waiters.splice(index, 1);
    if (index < this.#looking) this.#looking--;
    this.#letLook();
  }

  /** Lets the first waiter look, and if it is shared the shared ones directly behind it. */
  #letLook(): void {
    const waiters = this.#waiters;
    while (this.#looking < waiters.length) {
      const next = waiters[this.#looking]!;
      const last = waiters[this.#looking - 1];
      if (last !== undefined && (last.mode !== "shared" || next.mode !== "shared")) return;
      this.#looking++;
      next.isLooking = true;
      next.onChange();
    }
  }
}
