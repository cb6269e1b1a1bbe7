/**
 * The transport over `npm:node-zookeeper-client`: its requests and watches. How they are settled, and
 * the life of the client, is in `client_connection.ts`.
 *
 * @module
 */
import type { Buffer } from "node:buffer";
import { ClientConnection, type ConnectionListener } from "./client_connection.ts";
import type { ReplyReader } from "./reply_reader.ts";
import type {
  Children,
  TransportListener,
  TransportOptions,
  TransportState,
  Watcher,
  Znode,
  ZooKeeperTransport,
} from "./transport.ts";
import { Watches } from "./watches.ts";
import {
  childrenRequest,
  createRequest,
  CREATOR_ACL,
  deleteRequest,
  EPHEMERAL,
  EPHEMERAL_SEQUENTIAL,
  getRequest,
  OPEN_ACL,
  PERSISTENT,
  readEvent,
  setRequest,
  watchRequest,
} from "./wire_requests.ts";

class NodeZooKeeperTransport implements ZooKeeperTransport, ConnectionListener {
  readonly #connection: ClientConnection;
  /** The access control list of new znodes. */
  readonly #acl: Buffer;
  readonly #watches = new Watches();
  #listener: TransportListener | null = null;

  constructor(options: TransportOptions) {
    this.#acl = options.auth === undefined ? OPEN_ACL : CREATOR_ACL;
    this.#connection = new ClientConnection(options, this);
  }

  get state(): TransportState {
    return this.#connection.state;
  }

  get epoch(): number {
    return this.#connection.epoch;
  }

  get timeoutMs(): number {
    return this.#connection.timeoutMs;
  }

  get silentMs(): number {
    return this.#connection.silentMs;
  }

  get connectError(): unknown {
    return this.#connection.connectError;
  }

  listen(listener: TransportListener): void {
    this.#listener = listener;
  }

  connectNow(): void {
    this.#connection.connectNow();
  }

  createSequential(pathPrefix: string, data: Uint8Array): Promise<string> {
    return this.#create(pathPrefix, data, EPHEMERAL_SEQUENTIAL);
  }

  async createEphemeral(path: string): Promise<void> {
    await this.#create(path, null, EPHEMERAL, true);
  }

  async createPersistent(path: string): Promise<void> {
    await this.#create(path, null, PERSISTENT);
  }

  children(path: string): Promise<Children> {
    return this.#connection.request(childrenRequest(path));
  }

  async get(path: string, watcher?: Watcher): Promise<Znode> {
    if (watcher === undefined) return await this.#connection.request(getRequest(path));
    const known = this.#watches.join(path, watcher);
    if (known !== null) return known;
    // Added before the request is sent: an event may arrive directly after the answer.
    this.#watches.add(path, watcher);
    try {
      const confirm = (znode: Znode) => this.#watches.confirm(path, znode);
      return await this.#connection.request(watchRequest(path, confirm));
    } catch (error) {
      this.#watches.fail(path, watcher);
      throw error;
    }
  }

  unwatch(path: string, watcher: Watcher): void {
    this.#watches.remove(path, watcher);
  }

  set(path: string): Promise<void> {
    return this.#connection.request(setRequest(path), true);
  }

  delete(path: string): Promise<void> {
    return this.#connection.request(deleteRequest(path));
  }

  close(timeoutMs: number): Promise<void> {
    return this.#connection.close(timeoutMs);
  }

  destroy(): void {
    this.#connection.destroy();
  }

  onStateChange(state: TransportState): void {
    if (state === "closed") this.#watches.clear();
    this.#listener?.onStateChange(state);
    // The watches are lost with their connection.
    if (state === "suspended") this.#watches.drop();
  }

  onEvent(reply: ReplyReader): void {
    const { path, event } = readEvent(reply);
    this.#watches.fire(path, event);
  }

  #create(
    path: string,
    data: Uint8Array | null,
    mode: number,
    isUrgent = false,
  ): Promise<string> {
    return this.#connection.request(createRequest(path, data, this.#acl, mode), isUrgent);
  }
}

/** Opens a transport over `npm:node-zookeeper-client`. It starts to connect at once. */
export function openNodeZooKeeperClient(options: TransportOptions): ZooKeeperTransport {
  return new NodeZooKeeperTransport(options);
}
