/**
 * ZooKeeper in memory, for events that real servers cannot produce on demand. It has no connections and
 * no time limits.
 *
 * @module
 */
import { Buffer } from "node:buffer";
import { setImmediate } from "node:timers";
import type { Instant } from "../../core/time/clock.ts";
import { ZooKeeperError } from "../../zookeeper/connection/failures.ts";
import type {
  TransportListener,
  TransportOptions,
  TransportState,
  ZooKeeperTransport,
} from "../../zookeeper/connection/transport.ts";
import type { Watcher } from "../../zookeeper/connection/watches.ts";
import type { WatchEvent } from "../../zookeeper/connection/wire.ts";
import { Watches } from "../../zookeeper/connection/watches.ts";
import { Replies, type Request } from "../../zookeeper/connection/wire.ts";
import { reply, textsBody } from "./scripted_server.ts";

/** The znode that all locks are below. */
export const ROOT_PATH = "/locks";

/** The settings of sessions that connect to nothing. */
export const SETTINGS: TransportOptions = {
  listServers: () => Promise.resolve([]),
  tls: undefined,
  warn: () => {},
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
    const { czxid, pzxid, createdAtMs, nextSequence } = this.#find(path);
    const childCount = this.children(path).names.length;
    return { czxid, pzxid, createdAtMs, childCount, createCount: nextSequence };
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

/** What a create's mode makes. */
const MODES = ["Persistent", "Ephemeral"];

function textBody(text: string): Uint8Array {
  return textsBody([text]).slice(4);
}

/** The metadata of a znode. */
function statBody(
  { czxid, pzxid, createdAtMs, childCount, createCount }: ReturnType<FakeTree["get"]>,
): Uint8Array {
  const stat = new DataView(new ArrayBuffer(68));
  stat.setBigInt64(0, czxid);
  stat.setBigInt64(16, BigInt(createdAtMs));
  // The number of creates and deletes together.
  stat.setInt32(36, 2 * createCount - childCount);
  stat.setInt32(56, childCount);
  stat.setBigInt64(60, pzxid);
  return new Uint8Array(stat.buffer);
}

/** Watches that know how many watchers there are. */
class CountedWatches extends Watches {
  readonly #watchers = new Map<string, Set<Watcher>>();

  get watcherCount(): number {
    return [...this.#watchers.values()].reduce((sum, { size }) => sum + size, 0);
  }

  override add(path: string, watcher: Watcher) {
    this.#watchers.set(path, (this.#watchers.get(path) ?? new Set()).add(watcher));
    return super.add(path, watcher);
  }

  override fail(path: string, watcher: Watcher): void {
    this.#watchers.get(path)?.delete(watcher);
    super.fail(path, watcher);
  }

  override remove(path: string, watcher: Watcher): void {
    this.#watchers.get(path)?.delete(watcher);
    super.remove(path, watcher);
  }

  override fire(path: string, event: WatchEvent): void {
    this.#watchers.delete(path);
    super.fire(path, event);
  }
}

/** One session with the tree. Requests are executed at once, and answered when `answers` resolves. */
export class FakeTransport implements ZooKeeperTransport {
  state: TransportState = "connected";
  epoch = 1;
  timeoutMs = 10_000;
  /** When a new `FakeClock` begins. */
  requestedAt: Instant = { nowMs: 1_000, wallMs: 1_000_000 };
  silentMs = 0;
  connectError: unknown = undefined;
  isFailing = false;
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
  readonly watches = new CountedWatches();
  readonly #tree: FakeTree;
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

  /** The answer to a ping arrives. */
  pong(sent: Instant): void {
    this.#listener?.onPing(sent);
  }

  /** The port's requests. They are the bytes that are sent to real servers, and so are the answers. */
  readonly requests = {
    send: async <T>({ bytes, read }: Request<T>): Promise<T> => {
      const type = bytes.readInt32BE(8);
      const path = bytes.toString("utf8", 16, 16 + bytes.readInt32BE(12));
      const body = await this.#execute(type, path, bytes.readInt32BE(bytes.length - 4));
      const replies = new Replies();
      replies.add(Buffer.from(reply(1, 0, body)));
      replies.next();
      return read(replies);
    },
  };

  #execute(type: number, path: string, mode: number): Promise<Uint8Array> {
    const tree = this.#tree;
    const none = new Uint8Array();
    switch (type) {
      case 1:
        return this.#do(mode === 3 ? "create" : `create${MODES[mode]} ${path}`, () => {
          const made = tree.create(path, mode === 3);
          if (mode === 3) this.created.push(made);
          return textBody(made);
        });
      case 2:
        return this.#do("delete", async () => {
          if (this.deletesAfter !== null) await this.deletesAfter;
          tree.delete(path);
          return none;
        });
      case 4:
        // No data, and the metadata.
        return this.#do("get", () => Buffer.concat([new Uint8Array(4), statBody(tree.get(path))]));
      case 5:
        return this.#do("set", () => {
          tree.get(path);
          return none;
        });
      case 12:
        return this.#do("children", () => {
          const { names } = tree.children(path);
          return Buffer.concat([textsBody(names), statBody(tree.get(path))]);
        });
      default:
        throw new Error(`There is no request of type ${type}`);
    }
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
    this.watches.fire(path, "deleted");
  }

  /** The number of watchers that are still notified. */
  get watcherCount(): number {
    return this.watches.watcherCount;
  }

  /** Fires the watches on a znode as if it had changed, or as if their connection was lost. */
  fireChanged(path: string): void {
    this.watches.fire(path, "changed");
  }

  async #do<T>(request: string, execute: () => T | Promise<T>): Promise<T> {
    this.log.push(request);
    if (this.isDestroyed) throw refusal("SESSION_OVER");
    if (this.state !== "connected") throw refusal("NOT_CONNECTED");
    // Executed in any case, even if `answers` makes it fail.
    const answer = Promise.try(execute);
    answer.catch(() => {});
    await Promise.try(() => this.answers(request));
    return await answer;
  }
}

/** Makes the error of a request that failed. */
export function refusal(code: ZooKeeperError["code"]): ZooKeeperError {
  return new ZooKeeperError(code, "made by a test");
}
