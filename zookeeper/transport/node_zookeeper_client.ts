/**
 * The transport over `npm:node-zookeeper-client`: its requests and watches. How they are settled, and
 * the life of the client, is in `client_connection.ts`.
 *
 * @module
 */
import { Buffer } from "node:buffer";
import { ClientConnection } from "./client_connection.ts";
import {
  type Client,
  type Done,
  EPHEMERAL,
  EPHEMERAL_SEQUENTIAL,
  NODE_DELETED,
  type NodeEvent,
  PERSISTENT,
  type Stat,
} from "./client_package.ts";
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

class NodeZooKeeperTransport implements ZooKeeperTransport, TransportListener {
  readonly #connection: ClientConnection;
  readonly #watches = new Watches<NodeEvent>(({ type }) =>
    type === NODE_DELETED ? "deleted" : "changed"
  );
  #listener: TransportListener | null = null;

  constructor(options: TransportOptions) {
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
    return this.#create(pathPrefix, Buffer.from(data), EPHEMERAL_SEQUENTIAL);
  }

  async createEphemeral(path: string): Promise<void> {
    await this.#create(path, null, EPHEMERAL, true);
  }

  async createPersistent(path: string): Promise<void> {
    await this.#create(path, null, PERSISTENT);
  }

  children(path: string): Promise<Children> {
    return this.#connection.request({
      send: (client: Client, done: Done<[string[] | undefined, Stat]>) =>
        client.getChildren(path, done),
      read: (names, { pzxid }) => ({ names: names ?? [], pzxid: pzxid.readBigInt64BE() }),
    });
  }

  async get(path: string, watcher?: Watcher): Promise<Znode> {
    const known = watcher && this.#watches.join(path, watcher);
    if (known) return known;
    // Added before the request is sent: an event may arrive directly after the answer.
    const relay = watcher === undefined ? undefined : this.#watches.add(path, watcher);
    try {
      return await this.#connection.request({
        send: (client: Client, done: Done<[Buffer | undefined, Stat]>) =>
          client.getData(path, relay, done),
        read: (data, stat) => {
          const znode = znodeOf(data, stat);
          if (relay !== undefined) this.#watches.confirm(path, znode);
          return znode;
        },
      });
    } catch (error) {
      if (watcher !== undefined) this.#watches.fail(path, watcher);
      throw error;
    }
  }

  unwatch(path: string, watcher: Watcher): void {
    this.#watches.remove(path, watcher);
  }

  set(path: string): Promise<void> {
    return this.#connection.request({
      send: (client: Client, done: Done<[]>) => client.setData(path, Buffer.alloc(0), done),
      read: () => {},
      isUrgent: true,
    });
  }

  delete(path: string): Promise<void> {
    return this.#connection.request({
      send: (client: Client, done: Done<[]>) => client.remove(path, done),
      read: () => {},
    });
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

  #create(
    path: string,
    data: Buffer | null,
    mode: number,
    isUrgent = false,
  ): Promise<string> {
    const { acl } = this.#connection;
    return this.#connection.request({
      send: (client: Client, done: Done<[string]>) => client.create(path, data, acl, mode, done),
      read: (path) => path,
      isUrgent,
    });
  }
}

function znodeOf(data: Buffer | undefined, stat: Stat): Znode {
  const { czxid, ctime, cversion, numChildren } = stat;
  return {
    data: data ?? Buffer.alloc(0),
    czxid: czxid.readBigInt64BE(),
    createdAtMs: Number(ctime.readBigInt64BE()),
    childCount: numChildren,
    // The server sends the number of creates and deletes together.
    createCount: (cversion + numChildren) / 2,
  };
}

/** Opens a transport over `npm:node-zookeeper-client`. It starts to connect at once. */
export function openNodeZooKeeperClient(options: TransportOptions): ZooKeeperTransport {
  return new NodeZooKeeperTransport(options);
}
