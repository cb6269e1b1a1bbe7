/**
 * The watch on our own znode, which notices when another client changes or deletes it. The watch on the
 * znode before ours is in `predecessor_watch.ts`.
 *
 * @module
 */
import type { SessionRequests } from "../session/session_requests.ts";
import { hasCode, ZooKeeperError } from "../connection/failures.ts";
import type { Watcher, WatchEvent, Znode } from "../connection/transport.ts";

/** The states of the watch. */
export type OwnWatchState =
  /** Not set yet, or not any more: its event has arrived, or its connection was lost. */
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
  #isAnswered = false;
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

  /** Whether the server has set the watch, and has reported no change since: the znode exists. */
  get isConfirmed(): boolean {
    return this.#state === "set" && this.#isAnswered;
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
   * @throws {ZooKeeperError} If the request fails.
   * @throws {ZooKeeperError} `OWN_ZNODE_GONE` if another client has deleted the znode.
   */
  async set(): Promise<void> {
    if (this.#state === "deleted") throw ownZnodeGone();
    if (this.#state === "set") return;
    // Set before the answer arrives: an event may follow it directly.
    this.#state = "set";
    this.#isAnswered = false;
    try {
      this.#znode = await this.#requests.get(this.#path, this);
      this.#isAnswered = true;
    } catch (error) {
      const isDeleted = hasCode(error, "NO_NODE");
      this.#state = isDeleted ? "deleted" : "unset";
      throw isDeleted ? ownZnodeGone() : error;
    }
  }

  /** Removes the watch and the listener: no event arrives any more. */
  remove(): void {
    this.#listener = null;
    this.#requests.unwatch(this.#path, this);
  }

  onWatchEvent(event: WatchEvent): void {
    // ZooKeeper removes a watch when it fires.
    this.#state = event === "deleted" ? "deleted" : "unset";
    this.#listener?.onOwnZnodeChange();
  }
}

/** Makes the error for a missing znode of ours: the caller neither holds the lock nor waits for it. */
export function ownZnodeGone(): ZooKeeperError {
  return new ZooKeeperError("OWN_ZNODE_GONE", "Our znode in the queue was deleted");
}
