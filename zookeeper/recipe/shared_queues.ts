/**
 * The queues in which calls of an instance wait, with the knowledge that these calls share. Alone, each of
 * them would list the whole queue. The recipe itself is in `lock_recipe.ts`.
 *
 * @module
 */
import type { Session } from "../session/session.ts";
import { SharedRead } from "../session/shared_read.ts";
import type { QueueEntry } from "./order.ts";
import { type OwnHolder, OwnWaiters } from "./own_waiters.ts";
import type { LeavingListener, OwnZnode } from "./own_znode.ts";
import { QueueView } from "./queue_view.ts";

/** The children of the lock's znode, and the connection on which they were listed. */
export interface Listing {
  readonly view: QueueView;
  /** The zxid of the last create or delete of a child. */
  readonly pzxid: bigint;
  readonly epoch: number;
}

/** How many children the lock's znode has, and has ever had. */
export interface QueueSize {
  readonly childCount: number;
  /** The next sequence number. */
  readonly createCount: number;
}

/** The queue of one lock, for all calls that wait in it in the same session. */
export class SharedQueue {
  /** The calls that wait. */
  readonly waiters: OwnWaiters = new OwnWaiters();
  readonly #session: Session;
  readonly #lockPath: string;
  readonly #listing = new SharedRead(() => this.#list());
  readonly #size = new SharedRead(() => this.#readSize());
  #latest: Listing | null = null;
  #holder: OwnHolder | null = null;
  /** How many calls have begun to enter the queue, and do not know their places yet. */
  #entering = 0;

  /** Takes the path of the lock's znode. Nothing is sent yet. */
  constructor(session: Session, lockPath: string) {
    this.#session = session;
    this.#lockPath = lockPath;
  }

  /**
   * Lists the queue, after this call.
   *
   * @throws {ZooKeeperError} If the request fails.
   */
  list(): Promise<Listing> {
    return this.#listing.send();
  }

  /**
   * Reads how long the queue is, after this call. The answer is short however long the queue is.
   *
   * @throws {ZooKeeperError} If the request fails.
   */
  size(): Promise<QueueSize> {
    return this.#size.send();
  }

  /** The latest listing on this connection; `null` if there is none. */
  get latest(): Listing | null {
    return this.#latest?.epoch === this.#session.requests.epoch ? this.#latest : null;
  }

  /** Whether other calls of the instance are ahead of one that enters now, unless they fail. */
  get hasOthersAhead(): boolean {
    return this.#entering > 0 || !this.waiters.isEmpty;
  }

  /** Counts a call as one that enters, until it knows its place. */
  async entering<T>(entered: Promise<T>): Promise<T> {
    this.#entering++;
    try {
      return await entered;
    } finally {
      this.#entering--;
    }
  }

  /** The entry of ours that was last known to be the first: none is ahead of it, now or later. */
  get holder(): OwnHolder | null {
    return this.#holder;
  }

  /** Records that an entry of ours is the first one. */
  recordFirst({ name, sequence }: QueueEntry): void {
    this.#holder = { name, sequence, isLeaving: false, next: null };
  }

  /** Records that an entry of ours is about to be deleted. It does not count any more. */
  recordLeaving(znode: OwnZnode): void {
    const holder = this.#holder;
    if (holder === null || holder.name !== znode.name) return;
    const { first } = this.waiters;
    holder.isLeaving = true;
    // Its watch has not fired though the create of the waiter's entry was answered.
    if (first !== undefined && znode.watch.isConfirmed) holder.next = first;
    first?.onHolderLeaving(holder);
  }

  /**
   * Returns the entries ahead of ours that a listing shows, without those that must have been deleted
   * since, because an entry of ours behind them was the first one. New entries are never ahead of ours:
   * they get greater numbers.
   *
   * @returns The entries, the nearest one last; `null` if the listing does not show ours.
   */
  entriesAhead({ view }: Listing, ownName: string): QueueEntry[] | null {
    return view.entriesAhead(ownName, this.#holder?.name ?? null);
  }

  async #list(): Promise<Listing> {
    const { requests } = this.#session;
    const { epoch } = requests;
    const { names, pzxid } = await requests.children(this.#lockPath);
    return this.#latest = { view: new QueueView(names), pzxid, epoch };
  }

  async #readSize(): Promise<QueueSize> {
    return await this.#session.requests.get(this.#lockPath);
  }
}

/** One znode of ours in a queue, from before its create until it is about to be deleted. */
export class QueueUse implements LeavingListener {
  readonly queue: SharedQueue;
  readonly #onEnd: () => void;

  /** `onEnd` is called at the end. */
  constructor(queue: SharedQueue, onEnd: () => void) {
    this.queue = queue;
    this.#onEnd = onEnd;
  }

  onLeaving(znode: OwnZnode): void {
    this.queue.recordLeaving(znode);
    this.#onEnd();
  }
}

/** The queues in which an instance has znodes at this time. */
export class SharedQueues {
  readonly #queues = new WeakMap<Session, Map<string, { queue: SharedQueue; users: number }>>();

  /** Returns the queue of a lock, for one znode of ours. Its calls share it while there are any. */
  use(session: Session, lockPath: string): QueueUse {
    const queues = this.#queues.get(session) ?? new Map();
    this.#queues.set(session, queues);
    const shared = queues.get(lockPath) ?? { queue: new SharedQueue(session, lockPath), users: 0 };
    queues.set(lockPath, shared);
    shared.users++;
    return new QueueUse(shared.queue, () => {
      if (--shared.users === 0) queues.delete(lockPath);
    });
  }
}
