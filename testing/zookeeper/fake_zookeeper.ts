/**
 * ZooKeeper in memory, for events that real servers cannot produce on demand. It has no connections and
 * no time limits.
 *
 * @module
 */
import { setImmediate } from "node:timers";
import { ZooKeeperError, type ZooKeeperErrorCode } from "../../zookeeper/connection/failures.ts";
import type {
  TransportListener,
  TransportOptions,
  TransportState,
  Watcher,
  WatchEvent,
  Znode,
  ZooKeeperTransport,
} from "../../zookeeper/connection/transport.ts";

/** The options of a transport that connects to nothing. */
export const TRANSPORT_OPTIONS: TransportOptions = {
  listServers: () => Promise.resolve([]),
  tls: undefined,
  warnings: { warn: () => {} },
  sessionTimeoutMs: 10_000,
  requestTimeoutMs: undefined,
  unavailableAfterMs: 5_000,
  auth: undefined,
};

/** Lets all pending callbacks run: the runtime has no other work, since nothing here has a time. */
export function settle(): Promise<void> {
  return new Promise((resolve) => void setImmediate(resolve));
}

interface FakeZnode {
  czxid: bigint;
  pzxid: bigint;
  nextSequence: number;
  createdAtMs: number;
}

/** The tree of znodes, which all sessions share. */
export class FakeTree {
  readonly znodes = new Map<string, FakeZnode>([["", {
    czxid: 0n,
    pzxid: 0n,
    nextSequence: 0,
    createdAtMs: 0,
  }]]);
  /** The servers' clock. */
  nowMs = 0;
  readonly transports = new Set<FakeTransport>();
  #zxid = 0n;

  create(path: string, isSequential = false): string {
    const parent = this.#find(path.slice(0, path.lastIndexOf("/")));
    const sequence = parent.nextSequence++;
    const digits = sequence < 0
      ? `-${String(-sequence).padStart(9, "0")}`
      : String(sequence).padStart(10, "0");
    const created = isSequential ? path + digits : path;
    if (this.znodes.has(created)) throw refusal("NODE_EXISTS");
    parent.pzxid = ++this.#zxid;
    const createdAtMs = this.nowMs;
    this.znodes.set(created, {
      czxid: this.#zxid,
      pzxid: this.#zxid,
      nextSequence: 0,
      createdAtMs,
    });
    return created;
  }

  delete(path: string): void {
    this.#find(path);
    if (this.children(path).names.length > 0) throw refusal("NOT_EMPTY");
    this.znodes.delete(path);
    this.#find(path.slice(0, path.lastIndexOf("/"))).pzxid = ++this.#zxid;
    for (const transport of this.transports) transport.onDeleted(path);
  }

  get(path: string) {
    const { czxid, createdAtMs, nextSequence } = this.#find(path);
    const childCount = this.children(path).names.length;
    return { data: new Uint8Array(), czxid, createdAtMs, childCount, createCount: nextSequence };
  }

  children(path: string) {
    const { pzxid } = this.#find(path);
    const names = [...this.znodes.keys()]
      .filter((other) =>
        other.startsWith(`${path}/`) && !other.slice(path.length + 1).includes("/")
      )
      .map((other) => other.slice(path.length + 1));
    return { names, pzxid };
  }

  #find(path: string): FakeZnode {
    const znode = this.znodes.get(path);
    if (znode === undefined) throw refusal("NO_NODE");
    return znode;
  }
}

/** One session with the tree. Requests are executed at once, and answered when `answers` resolves. */
export class FakeTransport implements ZooKeeperTransport {
  state: TransportState = "connected";
  epoch = 1;
  timeoutMs = 10_000;
  silentMs = 0;
  connectError: unknown = undefined;
  /** All requests so far, in order. */
  readonly log: string[] = [];
  /** The paths of all znodes that `createSequential` has made, also if its answer was lost. */
  readonly created: string[] = [];
  isDestroyed = false;
  /** How often `connectNow()` was called. */
  connectNows = 0;
  /** Called before each answer. If it throws or rejects, the request fails with that error. */
  answers: (request: string) => void | Promise<void> = () => {};
  /** Deletes are executed when this resolves; at once if it is `null`. */
  deletesAfter: Promise<void> | null = null;
  readonly #tree: FakeTree;
  /** As in `watches.ts`: the znode is known from when the watch is answered until it fires. */
  readonly #watches = new Map<string, { watchers: Set<Watcher>; znode: Znode | null }>();
  #listener: TransportListener | null = null;

  constructor(tree: FakeTree) {
    this.#tree = tree;
    tree.transports.add(this);
  }

  setListener(listener: TransportListener): void {
    this.#listener = listener;
  }

  connectNow(): void {
    this.connectNows++;
  }

  /** Changes the state, as a client does. */
  become(state: TransportState): void {
    this.state = state;
    this.#listener?.onStateChange(state);
  }

  createSequential(pathPrefix: string): Promise<string> {
    return this.#do("create", () => {
      const path = this.#tree.create(pathPrefix, true);
      this.created.push(path);
      return path;
    });
  }

  createEphemeral(path: string): Promise<void> {
    return this.#do(`createEphemeral ${path}`, () => void this.#tree.create(path));
  }

  createPersistent(path: string): Promise<void> {
    return this.#do(`createPersistent ${path}`, () => void this.#tree.create(path));
  }

  children(path: string) {
    return this.#do("children", () => this.#tree.children(path));
  }

  /** Nothing is sent where a watch is set, even if it has no watchers any more. */
  async get(path: string, watcher?: Watcher): Promise<Znode> {
    if (watcher === undefined) return await this.#do("get", () => this.#tree.get(path));
    const watch = this.#watches.get(path) ?? { watchers: new Set(), znode: null };
    this.#watches.set(path, watch);
    watch.watchers.add(watcher);
    if (watch.znode !== null) return watch.znode;
    try {
      return watch.znode = await this.#do("get", () => this.#tree.get(path));
    } catch (error) {
      watch.watchers.delete(watcher);
      const isUnused = watch.znode === null && watch.watchers.size === 0;
      if (isUnused && this.#watches.get(path) === watch) this.#watches.delete(path);
      throw error;
    }
  }

  unwatch(path: string, watcher: Watcher): void {
    this.#watches.get(path)?.watchers.delete(watcher);
  }

  set(path: string): Promise<void> {
    return this.#do("set", () => void this.#tree.get(path));
  }

  delete(path: string): Promise<void> {
    const execute = () => this.#tree.delete(path);
    return this.#do("delete", () => this.deletesAfter?.then(execute) ?? execute());
  }

  close(): Promise<void> {
    this.destroy();
    return Promise.resolve();
  }

  destroy(): void {
    this.isDestroyed = true;
    this.#tree.transports.delete(this);
  }

  onDeleted(path: string): void {
    this.#fire(path, "deleted");
  }

  /** The number of watchers that are still notified. */
  get watcherCount(): number {
    return [...this.#watches.values()].reduce((sum, { watchers }) => sum + watchers.size, 0);
  }

  /** Fires the watches on a znode as if it had changed, or as if their connection was lost. */
  fireChanged(path: string): void {
    this.#fire(path, "changed");
  }

  #fire(path: string, event: WatchEvent): void {
    const set = this.#watches.get(path);
    this.#watches.delete(path);
    for (const watcher of set?.watchers ?? []) watcher.onWatchEvent(event);
  }

  async #do<T>(request: string, execute: () => T | Promise<T>): Promise<T> {
    this.log.push(request);
    if (this.isDestroyed) throw refusal("SESSION_OVER");
    // Executed in any case, even if `answers` makes it fail.
    const answer = Promise.try(execute);
    answer.catch(() => {});
    await Promise.try(() => this.answers(request));
    return await answer;
  }
}

/** Makes the error of a request that failed. */
export function refusal(code: ZooKeeperErrorCode): ZooKeeperError {
  return new ZooKeeperError(code, "made by a test");
}
