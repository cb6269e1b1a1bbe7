/**
 * Who watches which znode, for a client that can neither take a watch back nor bear many on one znode.
 *
 * @module
 */
import type { Watcher, WatchEvent } from "./transport.ts";

interface Watch<E> {
  readonly relay: (event: E) => void;
  readonly watchers: Set<Watcher>;
  /** Whether the client has the relay: then its event will come, or the session ends. */
  isSet: boolean;
}

/** The watchers of one session. `E` is an event as the client tells it. */
export class Watches<E> {
  readonly #read: (event: E) => WatchEvent;
  readonly #watches = new Map<string, Watch<E>>();

  constructor(read: (event: E) => WatchEvent) {
    this.#read = read;
  }

  /** Adds a watcher; returns what the client gets for all of a znode, the same until an event comes. */
  add(path: string, watcher: Watcher): (event: E) => void {
    let watch = this.#watches.get(path);
    if (watch === undefined) this.#watches.set(path, watch = this.#newWatch(path));
    watch.watchers.add(watcher);
    return watch.relay;
  }

  /** The server has set the watch. */
  set(path: string): void {
    const watch = this.#watches.get(path);
    if (watch !== undefined) watch.isSet = true;
  }

  /** The server has not set the watch: there is no such znode, or no answer. */
  fail(path: string, watcher: Watcher): void {
    const watch = this.#watches.get(path);
    watch?.watchers.delete(watcher);
    // No event will ever come to take it away.
    if (watch?.isSet === false && watch.watchers.size === 0) this.#watches.delete(path);
  }

  /** How many znodes are watched, or were until all watchers were removed. */
  get size(): number {
    return this.#watches.size;
  }

  /** Removes a watcher. The server's watch stays until it fires, and then does nothing. */
  remove(path: string, watcher: Watcher): void {
    this.#watches.get(path)?.watchers.delete(watcher);
  }

  /** The connection is lost, and all watches with it: that is a change for each watcher. */
  drop(): void {
    const called = [...this.#watches.values()].flatMap(({ watchers }) => [...watchers]);
    this.clear();
    for (const watcher of called) watcher("changed");
  }

  /** Removes all of them. */
  clear(): void {
    for (const { watchers } of this.#watches.values()) watchers.clear();
    this.#watches.clear();
  }

  #newWatch(path: string): Watch<E> {
    const watchers = new Set<Watcher>();
    const relay = (event: E) => {
      if (this.#watches.get(path)?.relay === relay) this.#watches.delete(path);
      const called = [...watchers];
      watchers.clear();
      for (const watcher of called) watcher(this.#read(event));
    };
    return { relay, watchers, isSet: false };
  }
}
