/**
 * The queues in which calls of an instance wait, with the knowledge that these calls share. Alone, each of
 * them would list the whole queue. The recipe itself is in `lock_recipe.ts`.
 *
 * @module
 */
import type { Session } from "../session/session.ts";
import { QueueView } from "./queue_view.ts";

/** The children of the lock's znode, and the connection on which they were listed. */
export interface Listing {
  readonly view: QueueView;
  /** The zxid of the last create or delete of a child. */
  readonly pzxid: bigint;
  readonly epoch: number;
}

/** The queue of one lock, for all calls that wait in it in the same session. */
export class SharedQueue {
  readonly #session: Session;
  readonly #lockPath: string;
  #running: Promise<Listing> | null = null;
  #next: Promise<Listing> | null = null;
  #firstName: string | null = null;

  /** Takes the path of the lock's znode. Nothing is sent yet. */
  constructor(session: Session, lockPath: string) {
    this.#session = session;
    this.#lockPath = lockPath;
  }

  /**
   * Lists the queue. The listing is sent after this call, and so shows what was requested before. If one
   * is under way already, the next one is sent after its answer, for all calls that wait by then.
   *
   * @throws {ZooKeeperError} If the request fails.
   */
  list(): Promise<Listing> {
    if (this.#next !== null) return this.#next;
    if (this.#running === null) return this.#send();
    const next = () => {
      this.#next = null;
      return this.#send();
    };
    this.#next = this.#running.then(next, next);
    return this.#next;
  }

  /** Records that an entry is the first one. */
  recordFirst(name: string): void {
    this.#firstName = name;
  }

  /**
   * Whether an entry is known to be, or to have been, the first one. Then none is ahead of it any more: new
   * entries get greater numbers.
   */
  wasFirst(name: string): boolean {
    return this.#firstName === name;
  }

  #send(): Promise<Listing> {
    const running = this.#read().finally(() => {
      if (this.#running === running) this.#running = null;
    });
    this.#running = running;
    return running;
  }

  async #read(): Promise<Listing> {
    const { requests } = this.#session;
    const { epoch } = requests;
    const { names, pzxid } = await requests.children(this.#lockPath);
    return { view: new QueueView(names), pzxid, epoch };
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
