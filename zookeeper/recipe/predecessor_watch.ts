/**
 * The sleep of a call that waits in a queue, and the watch on the znode before ours, which ends it. The
 * watch on our own znode is in `own_watch.ts`.
 *
 * @module
 */
import type { Session, SessionListener } from "../session/session.ts";
import { hasCode } from "../connection/failures.ts";
import type { Watcher, WatchEvent, Znode } from "../connection/transport.ts";
import type { OwnZnodeListener } from "./own_watch.ts";

/** One sleep of a waiter. It ends at the first change. */
export class Sleep implements SessionListener, OwnZnodeListener {
  readonly #end = Promise.withResolvers<void>();
  #isOver = false;

  /** Resolves at the first change. */
  get over(): Promise<void> {
    return this.#end.promise;
  }

  /** Whether there was a change. */
  get isOver(): boolean {
    return this.#isOver;
  }

  /** Wakes the waiter. */
  end(): void {
    this.#isOver = true;
    this.#end.resolve();
  }

  onSessionChange(): void {
    this.end();
  }

  onOwnZnodeChange(): void {
    this.end();
  }
}

/** The watch on a znode before ours: the one directly before it, or the first one for a try. */
export class PredecessorWatch implements Watcher {
  readonly #session: Session;
  readonly #path: string;
  readonly #sleep: Sleep;
  #isDeleted = false;
  #isSet = false;

  /** Takes the path of the predecessor, and the sleep that its change ends. Nothing is sent yet. */
  constructor(session: Session, path: string, sleep: Sleep) {
    this.#session = session;
    this.#path = path;
    this.#sleep = sleep;
  }

  /** Whether the server has set the watch: the predecessor existed then. */
  get isSet(): boolean {
    return this.#isSet;
  }

  /** Whether the sleep was ended by the deletion of the predecessor. */
  get isDeleted(): boolean {
    return this.#isDeleted;
  }

  /**
   * Sets the watch by reading the predecessor. (The request `exists` would also set a watch on a missing
   * znode, which nothing would ever remove.)
   *
   * @returns The predecessor, or `null` if it was deleted: then no watch is set.
   * @throws {ZooKeeperError} If the request fails.
   */
  async set(): Promise<Znode | null> {
    try {
      const found = await this.#session.requests.get(this.#path, this);
      this.#isSet = true;
      return found;
    } catch (error) {
      if (hasCode(error, "NO_NODE")) return null;
      throw error;
    }
  }

  /** Removes the watch: it does not end the sleep any more. */
  remove(): void {
    this.#session.requests.unwatch(this.#path, this);
  }

  onWatchEvent(event: WatchEvent): void {
    if (this.#sleep.isOver) return;
    this.#isDeleted = event === "deleted";
    this.#sleep.end();
  }
}
