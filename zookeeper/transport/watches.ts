/**
 * The watchers of each znode, for a client that cannot remove a watch, and that warns about a leak when
 * one znode has many watchers. Sends nothing.
 *
 * @module
 */
import type { Watcher, WatchEvent, Znode } from "./transport.ts";

interface Watch<E> {
  /** The callback that the client gets for all watchers of the znode. */
  readonly relay: (event: E) => void;
  readonly watchers: Set<Watcher>;
  /**
   * The znode as it is since the server has set the watch; `null` before. The watch ends with an event or
   * with the connection.
   */
  znode: Znode | null;
}

/** The watchers of one session. `E` is the client's own type of events. */
export class Watches<E> {
  readonly #translate: (event: E) => WatchEvent;
  readonly #watches = new Map<string, Watch<E>>();

  /** Watches nothing yet. `translate` turns an event of the client into ours. */
  constructor(translate: (event: E) => WatchEvent) {
    this.#translate = translate;
  }

  /**
   * Adds a watcher, before the watch is requested.
   *
   * @returns The callback for the client. All watchers of a znode share it until an event arrives.
   */
  add(path: string, watcher: Watcher): (event: E) => void {
    let watch = this.#watches.get(path);
    if (watch === undefined) this.#watches.set(path, watch = this.#newWatch(path));
    watch.watchers.add(watcher);
    return watch.relay;
  }

  /** Adds a watcher without a request if the server has set a watch. Returns the znode if so. */
  join(path: string, watcher: Watcher): Znode | null {
    const watch = this.#watches.get(path);
    if (!watch?.znode) return null;
    watch.watchers.add(watcher);
    return watch.znode;
  }

  /** Records that the server has set the watch. */
  confirm(path: string, znode: Znode): void {
    const watch = this.#watches.get(path);
    if (watch !== undefined) watch.znode = znode;
  }

  /** Records that the server has not set the watch: the znode is missing, or no answer arrived. */
  fail(path: string, watcher: Watcher): void {
    const watch = this.#watches.get(path);
    watch?.watchers.delete(watcher);
    // No event will ever remove a watch that was not set.
    if (watch?.znode === null && watch.watchers.size === 0) this.#watches.delete(path);
  }

  /** The number of znodes that have a watch, including watches without watchers. */
  get size(): number {
    return this.#watches.size;
  }

  /** Removes a watcher. The server keeps its watch until that fires, which then has no effect. */
  remove(path: string, watcher: Watcher): void {
    this.#watches.get(path)?.watchers.delete(watcher);
  }

  /** Removes all watches, because their connection is lost, and notifies each watcher of a change. */
  drop(): void {
    const notified = [...this.#watches.values()].flatMap(({ watchers }) => [...watchers]);
    this.clear();
    for (const watcher of notified) watcher.onWatchEvent("changed");
  }

  /** Removes all watchers without notifying them. */
  clear(): void {
    for (const { watchers } of this.#watches.values()) watchers.clear();
    this.#watches.clear();
  }

  #newWatch(path: string): Watch<E> {
    const watchers = new Set<Watcher>();
    const relay = (event: E) => {
      if (this.#watches.get(path)?.relay === relay) this.#watches.delete(path);
      const notified = [...watchers];
      watchers.clear();
      for (const watcher of notified) watcher.onWatchEvent(this.#translate(event));
    };
    return { relay, watchers, znode: null };
  }
}
