/**
 * Our own znode in the queue of a lock: its create, the search for it when the create is not answered,
 * and its delete. The wait behind other znodes is in `lock_recipe.ts`.
 *
 * @module
 * @see {@link https://curator.apache.org/apidocs/org/apache/curator/framework/api/CreateBuilderMain.html#withProtection()}
 */
import type { ReleaseAnswer } from "../../core/lease/grant.ts";
import type { Session } from "../session/session.ts";
import type { SessionSuccession } from "../session/session_succession.ts";
import { classifyFailure, hasCode, ZooKeeperError } from "../connection/failures.ts";
import { entriesWithGuid, entryPrefix, newGuid } from "./order.ts";
import { OwnWatch } from "./own_watch.ts";

/** The options of a znode of ours. */
export interface OwnZnodeOptions {
  readonly session: Session;
  /** The path of the lock's znode, the parent. */
  readonly lockPath: string;
  /** The data of the znode: the label, in UTF-8. */
  readonly data: Uint8Array;
  /** Whether `tryAcquire()` makes the znode. Its name shows that to other clients. */
  readonly isTry: boolean;
  /** Is notified when the znode leaves the queue. */
  readonly listener?: LeavingListener;
}

/** Is notified when a znode of ours leaves its queue. */
export interface LeavingListener {
  /** The znode is about to be deleted, and does not hold or await the lock any more. Called once. */
  onLeaving(znode: OwnZnode): void;
}

/** One znode of ours. It is ephemeral: the server deletes it at the end of its session. */
export class OwnZnode {
  /** The session that the znode belongs to. */
  readonly session: Session;
  /** The path of the lock's znode, the parent. */
  readonly lockPath: string;
  readonly #data: Uint8Array;
  /** Identifies the znode if its create is not answered. Used for this znode only. */
  readonly #guid: string;
  #created: { readonly path: string; readonly watch: OwnWatch } | null = null;
  /** Settles when the create is answered or has failed. Never rejects. */
  #creating: Promise<unknown> = Promise.resolve();
  #isCreateAmbiguous = false;
  #listener: LeavingListener | undefined;

  /** Sends nothing yet. */
  constructor({ session, lockPath, data, isTry, listener }: OwnZnodeOptions) {
    this.session = session;
    this.lockPath = lockPath;
    this.#data = data;
    this.#guid = newGuid(isTry);
    this.#listener = listener;
  }

  /** The name of the znode, without its parent; `null` until it is known to exist. */
  get name(): string | null {
    return this.#created === null ? null : this.#created.path.slice(this.lockPath.length + 1);
  }

  /** The watch on the znode. Throws unless the znode is known to exist. */
  get watch(): OwnWatch {
    if (this.#created === null) throw new TypeError("Cannot watch a znode that was not created");
    return this.#created.watch;
  }

  /** Whether an unanswered create may have been executed, or may be executed later. */
  get isCreateAmbiguous(): boolean {
    return this.#isCreateAmbiguous;
  }

  /**
   * Sends the create now, and does not repeat it. If it fails, {@linkcode OwnZnode.isCreateAmbiguous}
   * tells whether it may have been executed. The first create of a session also makes the znode of its
   * heartbeat.
   *
   * @throws {ZooKeeperError} If the create fails, or if the session may not create that znode.
   */
  create(): Promise<void> {
    const preparing = this.session.prepareHeartbeat();
    const creating = this.#create();
    return preparing === null ? creating : bothCreated(creating, preparing);
  }

  #create(): Promise<void> {
    const prefix = `${this.lockPath}/${entryPrefix(this.#guid)}`;
    const creating = this.session.requests.createSequential(prefix, this.#data).then(
      (path) => this.#onCreated(path),
      (error) => {
        this.#isCreateAmbiguous = error instanceof ZooKeeperError && error.isAmbiguous;
        throw error;
      },
    );
    this.#creating = creating.catch(() => {});
    return creating;
  }

  /**
   * Searches for the znode of an unanswered create. If there are several, the one with the lowest number
   * is kept and the others are deleted. If there is none, the create was not executed and never will be.
   *
   * @throws {ZooKeeperError} If a request fails. Then the create is still ambiguous.
   */
  async resolveAmbiguousCreate(): Promise<void> {
    const [lowest, ...others] = await this.#find(this.session);
    await deleteAll(this.session, others);
    if (lowest !== undefined) this.#onCreated(lowest);
    this.#isCreateAmbiguous = false;
  }

  /**
   * Makes one attempt to delete the znode, or all znodes that an unanswered create may have made. Its
   * watch is removed in any case. Never rejects.
   *
   * @param sessions Supplies the session to send the delete in if the znode's own session is over.
   * @returns `"released"` if it is deleted, `"gone"` if it was missing, `"refused"` if the server will
   * refuse again, `"unknown"` if it may still exist: then call this again.
   */
  async delete(sessions: Pick<SessionSuccession, "current">): Promise<ReleaseAnswer> {
    this.#listener?.onLeaving(this);
    this.#listener = undefined;
    this.#created?.watch.remove();
    await this.#creating;
    if (this.#created === null && !this.#isCreateAmbiguous) return { state: "released" };
    if (this.session.validity.isDroppedByServer) {
      return { state: "gone", reason: "session-expired" };
    }
    try {
      const session = this.session.isOver ? await sessions.current() : this.session;
      if (this.#created !== null) await session.requests.delete(this.#created.path);
      else await deleteAll(session, await this.#find(session));
      return { state: "released" };
    } catch (cause) {
      if (hasCode(cause, "NO_NODE")) {
        return { state: "gone", reason: this.session.isOver ? "session-expired" : "stolen" };
      }
      const { kind, reason } = classifyFailure(cause);
      return kind === "refused" ? refusedDelete(reason, cause) : { state: "unknown", cause };
    }
  }

  #onCreated(path: string): void {
    this.#created = { path, watch: new OwnWatch(this.session.requests, path) };
  }

  /** Returns the paths of all znodes with our GUID. */
  async #find(session: Session): Promise<string[]> {
    // The write comes first: our server may lag behind the ensemble, and when it answers a write, it
    // knows all earlier ones. Besides, the requests of this session's earlier connections cannot be
    // executed any more. (If the session is over, the server deletes what this search misses.)
    if (session === this.session) await session.sendHeartbeat();
    try {
      const { names } = await session.requests.children(this.lockPath);
      return entriesWithGuid(names, this.#guid).map(({ name }) => `${this.lockPath}/${name}`);
    } catch (error) {
      if (hasCode(error, "NO_NODE")) return [];
      throw error;
    }
  }
}

/** Waits for the create of our znode, and for the heartbeat's if a refusal of that is final. */
async function bothCreated(creating: Promise<void>, preparing: Promise<void>): Promise<void> {
  preparing.catch(() => {}); // If our own create fails, only its error counts.
  await creating;
  try {
    await preparing;
  } catch (error) {
    // In an outage, the create is sent again before a lease is granted.
    if (classifyFailure(error).kind === "refused") throw error;
  }
}

function refusedDelete(reason: string, cause: unknown): ReleaseAnswer {
  return {
    state: "refused",
    reason: `ZooKeeper does not delete our znode: ${reason}. ` +
      "Until this instance is disposed, the lock stays held",
    cause,
  };
}

async function deleteAll({ requests }: Session, paths: readonly string[]): Promise<void> {
  for (const path of paths) {
    await requests.delete(path).catch((error) => {
      if (!hasCode(error, "NO_NODE")) throw error;
    });
  }
}
