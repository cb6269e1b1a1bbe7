/**
 * The watch on our own znode, which notices when another client changes or deletes it.
 *
 * @module
 */
import type { SessionRequests } from "../session/session_requests.ts";
import { hasCode, ZooKeeperError } from "../transport/errors.ts";
import type { Watcher, WatchEvent, Znode } from "../transport/transport.ts";

/** The states of the watch. */
export type OwnWatchState =
  /** Not set yet, or used up: by an event, or because its connection was lost. */
  | "unset"
  /** Set, or requested: the server reports the next change. */
  | "set"
  /** Another client has deleted the znode. */
  | "deleted";

/** Is notified of changes to our own znode. */
export interface OwnZnodeListener {
  /** The watch has fired; its state is `"unset"` or `"deleted"` now. */
  onOwnZnodeChange(): void;
}

/** The watch on one znode of ours. */
export class OwnWatch implements Watcher {
  readonly #requests: SessionRequests;
  readonly #path: string;
  #state: OwnWatchState = "unset";
  #znode: Znode | null = null;
  #listener: OwnZnodeListener | null = null;

  /** Takes the path of a znode that exists. Nothing is sent yet. */
  constructor(requests: SessionRequests, path: string) {
    this.#requests = requests;
    this.#path = path;
  }

  /** The state of the watch. */
  get state(): OwnWatchState {
    return this.#state;
  }

  /** The znode as it was when the watch was last set; `null` before. */
  get znode(): Znode | null {
    return this.#znode;
  }

  /** Sets the listener, or removes it with `null`. It replaces the previous one. */
  listen(listener: OwnZnodeListener | null): void {
    this.#listener = listener;
  }

  /**
   * Sets the watch, unless it is set, by reading the znode.
   *
   * @throws {ZooKeeperError} `OWN_ZNODE_GONE` if another client has deleted the znode.
   */
  async set(): Promise<void> {
    if (this.#state === "deleted") throw ownZnodeGone();
    if (this.#state === "set") return;
    // Before the answer: an event may arrive directly after it.
    this.#state = "set";
    try {
      this.#znode = await this.#requests.get(this.#path, this);
    } catch (error) {
      const isDeleted = hasCode(error, "NO_NODE");
      this.#state = isDeleted ? "deleted" : "unset";
      throw isDeleted ? ownZnodeGone() : error;
    }
  }

  /** Removes the watch and the listener. */
  remove(): void {
    this.#listener = null;
    this.#requests.unwatch(this.#path, this);
  }

  onWatchEvent(event: WatchEvent): void {
    // One event uses up a watch.
    this.#state = event === "deleted" ? "deleted" : "unset";
    this.#listener?.onOwnZnodeChange();
  }
}

/** The error for our own znode being missing: we neither hold the lock nor wait for it. */
export function ownZnodeGone(): ZooKeeperError {
  return new ZooKeeperError("OWN_ZNODE_GONE", "Our znode is not there");
}
