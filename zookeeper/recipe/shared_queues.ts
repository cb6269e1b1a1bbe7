/**
 * The queues in which calls of an instance wait, with the knowledge that these calls share. Alone, each of
 * them would list the whole queue. The recipe itself is in `lock_recipe.ts`.
 *
 * @module
 */
import type { Session } from "../session/session.ts";
import { SharedRead } from "../session/shared_read.ts";
import type { QueueEntry } from "./order.ts";
import { OwnWaiters } from "./own_waiters.ts";
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
  #firstName: string | null = null;

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

  /** Records that an entry is the first one: none is ahead of it, now or later. */
  recordFirst(name: string): void {
    this.#firstName = name;
  }

  /**
   * Returns the entries ahead of ours that a listing shows, without those that must have been deleted
   * since, because an entry of ours behind them was the first one. New entries are never ahead of ours:
   * they get greater numbers.
   *
   * @returns The entries, the nearest one last; `null` if the listing does not show ours.
   */
  entriesAhead({ view }: Listing, ownName: string): QueueEntry[] | null {
    return view.entriesAhead(ownName, this.#firstName);
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

/** The queues in which calls of an instance wait at this time. */
export class SharedQueues {
  readonly #queues = new WeakMap<Session, Map<string, { queue: SharedQueue; users: number }>>();

  /**
   * Returns the queue of a lock for the duration of the work.
   *
   * @param session The session of the call.
   * @param lockPath The path of the lock's znode.
   * @param work Uses the queue.
   */
  async using<T>(
    session: Session,
    lockPath: string,
    work: (queue: SharedQueue) => Promise<T>,
  ): Promise<T> {
    const queues = this.#queues.get(session) ?? new Map();
    this.#queues.set(session, queues);
    const shared = queues.get(lockPath) ?? { queue: new SharedQueue(session, lockPath), users: 0 };
    queues.set(lockPath, shared);
    shared.users++;
    try {
      return await work(shared.queue);
    } finally {
      if (--shared.users === 0) queues.delete(lockPath);
    }
  }
}
