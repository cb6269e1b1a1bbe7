import { LockSetupError } from "../../core/contract/errors.ts";
import type { LockMode } from "../../core/contract/distributed_lock.ts";
import type { ReleaseAnswer } from "../../core/lease/grant.ts";
import { classifyFailure, hasCode, ZooKeeperError } from "../connection/failures.ts";
import type { Watcher } from "../connection/watches.ts";
import type { WatchEvent, Znode } from "../connection/wire.ts";
import type { ChangeListener, Session } from "../session/session.ts";
import type { Sessions } from "../session/sessions.ts";
import {
  entryPrefix,
  newGuid,
  type QueueEntry,
  type QueuePosition,
  type QueueView,
  sequenceOf,
  sortedEntries,
} from "./queue_order.ts";
import type { SharedQueue } from "./shared_queue.ts";

/**
 * Our znode in the queue of a lock. It is ephemeral: the server deletes it at the end of its session.
 *
 * @see {@link https://curator.apache.org/apidocs/org/apache/curator/framework/api/CreateBuilderMain.html#withProtection()}
 */
export class OwnZnode implements Watcher, QueueEntry {
  readonly queue: SharedQueue;
  readonly session: Session;
  readonly mode: LockMode;
  /** Whether the znode is known to have been created. Until then the path and the name are `""`. */
  isCreated = false;
  path = "";
  name = "";
  sequence = NaN;
  /** Whether the last create was not answered: it may have been executed, or may be executed later. */
  isCreateAmbiguous = false;
  /**
   * `"unset"`: not set yet, or its event has arrived, or its connection was lost. `"set"`: the server has reported no
   * change since, so the znode exists. `"deleted"`: by another client.
   */
  watchState: "unset" | "requested" | "set" | "deleted" = "unset";
  /** Is notified of the watch's events. */
  listener: ChangeListener | null = null;
  /** The znode as it was when the watch was last set. */
  found: Znode | null = null;
  /** See step 4 of `acquisition.ts`; `null` until the watch is set, or a listing shows our znode alone. */
  fencingToken: bigint | null = null;
  readonly #data: Uint8Array;
  /** Has a GUID, which finds the znode if its create is not answered. */
  readonly #prefix: string;
  #creating: Promise<void> = Promise.resolve();
  #isLeaving = false;

  /** @param isTry Whether a call that does not wait makes it. Its name shows that, and the mode, to other clients. */
  constructor(queue: SharedQueue, data: Uint8Array, isTry: boolean, mode: LockMode) {
    this.queue = queue;
    this.session = queue.session;
    this.mode = mode;
    this.#data = data;
    this.#prefix = entryPrefix(newGuid(isTry), mode);
  }

  create(): Promise<void> {
    const prefix = `${this.queue.path}/${this.#prefix}`;
    return this.#creating = this.session.createSequential(prefix, this.#data).then(
      (path) => this.#onCreated(path),
      (error) => {
        this.isCreateAmbiguous = error instanceof ZooKeeperError &&
          error.meaning.isAmbiguous === true;
        throw error;
      },
    );
  }

  /**
   * Searches for the znode of an unanswered create. If there are several, the one with the lowest number
   * is kept and the others are deleted. If there is none, the create was not executed and never will be.
   */
  async resolveAmbiguousCreate(): Promise<void> {
    const [lowest, ...others] = await this.#find(this.session);
    await deleteAll(this.session, others);
    if (lowest !== undefined) this.#onCreated(lowest);
  }

  #onCreated(path: string): void {
    this.isCreated = true;
    this.path = path;
    this.name = path.slice(this.queue.path.length + 1);
    this.sequence = sequenceOf(this.name)!;
  }

  /** Returns the paths of all znodes of our create, the one with the lowest number first. */
  async #find(session: Session): Promise<string[]> {
    // The write comes first: our server may lag behind the ensemble, and when it answers a write, it
    // knows all earlier ones. Besides, the requests of this session's earlier connections cannot be
    // executed any more. (If the session is over, the server deletes what this search misses.)
    if (session === this.session) await session.sendHeartbeat();
    try {
      const { names } = await session.children(this.queue.path);
      const ours = sortedEntries(names.filter((name) => name.startsWith(this.#prefix)));
      return ours.map(({ name }) => `${this.queue.path}/${name}`);
    } catch (error) {
      if (hasCode(error, "NO_NODE")) return [];
      throw error;
    }
  }

  /** Throws if our znode is not listed, or if the sequence numbers do not show the order. */
  positionIn(view: QueueView): QueuePosition {
    const position = view.positionOf(this.name);
    if (position === null) throw ownZnodeGone();
    if (!position.isOrderKnown) throw this.outOfNumbers();
    // Ours is the only child; one that is not an entry counts, too. So the last change to the children was our
    // create, or the delete of a sibling after it: step 4 of `acquisition.ts`.
    if (view.children.names.length === 1) this.fencingToken ??= view.children.pzxid;
    return position;
  }

  outOfNumbers(): LockSetupError {
    const { name, path } = this.queue;
    const message = `Cannot order the waiters for the lock ${JSON.stringify(name)}: ` +
      `the sequence numbers of ${JSON.stringify(path)} are used up. ` +
      "Delete that znode when nobody uses it";
    return new LockSetupError(message, name);
  }

  /** Sets the watch by reading the znode, unless it is set. */
  async watch(): Promise<void> {
    if (this.watchState === "deleted") throw ownZnodeGone();
    if (this.watchState !== "unset") return;
    this.watchState = "requested"; // an event may follow the answer directly
    try {
      this.found = await this.session.get(this.path, this);
      this.fencingToken = this.found.czxid;
      if (this.watchState === "requested") this.watchState = "set";
    } catch (error) {
      const isDeleted = hasCode(error, "NO_NODE");
      this.watchState = isDeleted ? "deleted" : "unset";
      throw isDeleted ? ownZnodeGone() : error;
    }
  }

  onWatchEvent(event: WatchEvent): void {
    // ZooKeeper removes a watch when it fires.
    this.watchState = event === "deleted" ? "deleted" : "unset";
    this.listener?.onChange();
  }

  /**
   * Makes one attempt to delete the znode, or all znodes that an unanswered create may have made. It leaves
   * the queue at once. If its session is over, the delete is sent in a later one: the server may keep the znode
   * for the session timeout or, without a leader, for longer, and that would block the waiters. Never rejects.
   */
  async delete(sessions: Pick<Sessions, "current" | "latest">): Promise<ReleaseAnswer> {
    if (!this.#isLeaving) this.queue.remove(this, this.watchState === "set");
    this.#isLeaving = true;
    this.listener = null;
    await this.#creating.catch(() => {});
    if (!this.isCreated && !this.isCreateAmbiguous) return { state: "released" };
    const { session } = this;
    if (session.isDroppedByServer) return { state: "gone", reason: "session-expired" };
    try {
      const latest = sessions.latest!; // `current()` alone would connect at once, at each retry
      const usable = latest.isOver ? await sessions.current() : latest;
      if (this.isCreated) await usable.delete(this.path);
      else await deleteAll(usable, await this.#find(usable));
      return { state: "released" };
    } catch (cause) {
      if (hasCode(cause, "NO_NODE")) {
        return { state: "gone", reason: session.isOver ? "session-expired" : "stolen" };
      }
      const { kind, reason } = classifyFailure(cause);
      if (kind === "refused") return refusedDelete(reason, cause);
      const isUnexecuted = cause instanceof ZooKeeperError && cause.meaning.isAmbiguous !== true;
      return { state: "unknown", cause, isUnexecuted };
    }
  }
}

export function ownZnodeGone(): ZooKeeperError {
  return new ZooKeeperError("OWN_ZNODE_GONE", "Our znode in the queue was deleted");
}

function refusedDelete(reason: string, cause: unknown): ReleaseAnswer {
  return {
    state: "refused",
    reason: `ZooKeeper does not delete our znode: ${reason}${reason.endsWith("?") ? "" : "."} ` +
      "Until this instance is disposed, the lock stays held",
    cause,
  };
}

async function deleteAll(session: Session, paths: readonly string[]): Promise<void> {
  for (const path of paths) {
    await session.delete(path).catch((error) => {
      if (!hasCode(error, "NO_NODE")) throw error;
    });
  }
}
