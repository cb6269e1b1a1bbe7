/**
 * The watch on a znode before ours: the one directly before it, or the first one for a try. It wakes
 * the caller when the queue may have changed. The watch on our own znode is in `own_watch.ts`.
 *
 * @module
 */
import type { OutageBudget } from "../../core/outage_budget.ts";
import type { Session, SessionListener } from "../session/session.ts";
import { hasCode } from "../transport/errors.ts";
import type { Watcher, WatchEvent, Znode } from "../transport/transport.ts";
import type { OwnZnodeListener } from "./own_watch.ts";

/**
 * Watches one znode, its session and, if it is the listener of our `OwnWatch`, our own znode. The first
 * change to any of them aborts {@linkcode PredecessorWatch.changed}.
 */
export class PredecessorWatch implements Watcher, SessionListener, OwnZnodeListener {
  readonly #session: Session;
  readonly #path: string;
  readonly #changed = new AbortController();
  #isDeleted = false;

  /** Takes the path of the predecessor. Nothing is sent yet. */
  constructor(session: Session, path: string) {
    this.#session = session;
    this.#path = path;
  }

  /** Aborts at the first change. */
  get changed(): AbortSignal {
    return this.#changed.signal;
  }

  /** Whether the first change was the deletion of the predecessor. */
  get isDeleted(): boolean {
    return this.#isDeleted;
  }

  /**
   * Sets the watch by reading the predecessor. (The request `exists` would also set a watch on a missing
   * znode, which nothing would ever remove.)
   *
   * @param budget Repeats the request during an outage.
   * @returns The predecessor, or `null` if it was deleted: then no watch is set.
   */
  async set(budget: OutageBudget): Promise<Znode | null> {
    this.#session.addListener(this);
    try {
      return await budget.ask(() => this.#session.requests.get(this.#path, this));
    } catch (error) {
      if (hasCode(error, "NO_NODE")) return null;
      throw error;
    }
  }

  /** Removes the watch: `changed` does not abort any more. */
  remove(): void {
    this.#session.removeListener(this);
    this.#session.requests.unwatch(this.#path, this);
  }

  onWatchEvent(event: WatchEvent): void {
    this.#wake(event === "deleted");
  }

  onSessionChange(): void {
    this.#wake(false);
  }

  onOwnZnodeChange(): void {
    this.#wake(false);
  }

  #wake(isDeleted: boolean): void {
    if (this.changed.aborted) return;
    this.#isDeleted = isDeleted;
    this.#changed.abort();
  }
}
