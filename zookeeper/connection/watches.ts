import type { WatchEvent, Znode } from "./wire.ts";

export interface Watcher {
  /** Called once for each watch that was set. Must not throw. */
  onWatchEvent(event: WatchEvent): void;
}

/** The watchers of each znode. A watch that is not needed any more stays until it fires. Sends nothing. */
export class Watches {
  /**
   * By path, until an event or the end of the connection: the watchers, and the znode as it is since the server has
   * set the watch; `null` before.
   */
  readonly #watches = new Map<string, { readonly watchers: Set<Watcher>; znode: Znode | null }>();

  /** Adds a watcher. Returns the znode if a watch is set; `null` if the caller must request it. */
  add(path: string, watcher: Watcher): Znode | null {
    let watch = this.#watches.get(path);
    if (watch === undefined) this.#watches.set(path, watch = { watchers: new Set(), znode: null });
    watch.watchers.add(watcher);
    return watch.znode;
  }

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

  /** The znodes that have a watch, including watches without watchers. */
  get size(): number {
    return this.#watches.size;
  }

  /** Removes a watcher, not the watch. */
  remove(path: string, watcher: Watcher): void {
    this.#watches.get(path)?.watchers.delete(watcher);
  }

  /** Notifies all watchers of a znode of its event, which ends the watch. */
  fire(path: string, event: WatchEvent): void {
    const watch = this.#watches.get(path);
    if (watch === undefined) return;
    this.#watches.delete(path);
    for (const watcher of watch.watchers) watcher.onWatchEvent(event);
  }

  /** Removes all watches, because their connection is lost, and notifies each watcher of a change. */
  drop(): void {
    const notified = [...this.#watches.values()].flatMap(({ watchers }) => [...watchers]);
    this.#watches.clear();
    for (const watcher of notified) watcher.onWatchEvent("changed");
  }
}
