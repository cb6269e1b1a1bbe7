// deno-lint-ignore-file no-import-prefix -- a bare name would fail when this is imported by URL
/**
 * The transport over `npm:node-zookeeper-client`. The package has no time limits, so each request gets
 * one here. The workarounds for its other failures are in `client_guard.ts`.
 *
 * @module
 */
import { Buffer } from "node:buffer";
import zookeeper from "npm:node-zookeeper-client@1.1.3";
import { ClientGuard, CONNECTION_LOSS } from "./client_guard.ts";
import {
  type Acl,
  type Client,
  type Done,
  EPHEMERAL,
  EPHEMERAL_SEQUENTIAL,
  NODE_DELETED,
  type NodeEvent,
  type Package,
  PERSISTENT,
  type Stat,
  toError,
} from "./client_package.ts";
import { ZooKeeperError } from "./errors.ts";
import {
  type Children,
  requestLimitMs,
  type TransportListener,
  type TransportOptions,
  type TransportState,
  type Watcher,
  type Znode,
  type ZooKeeperTransport,
} from "./transport.ts";
import { Watches } from "./watches.ts";

class NodeZooKeeperTransport implements ZooKeeperTransport {
  state: TransportState = "connecting";
  epoch = 0;
  readonly #client: Client;
  readonly #guard: ClientGuard;
  readonly #options: TransportOptions;
  readonly #acl: Acl[];
  readonly #watches = new Watches<NodeEvent>(({ type }) =>
    type === NODE_DELETED ? "deleted" : "changed"
  );
  /** For each pending request, the function that rejects it. */
  readonly #pending = new Set<(error: ZooKeeperError) => void>();
  #listener: TransportListener | null = null;
  #isDestroyed = false;
  #onConnected: (() => void) | undefined;
  #onClosed: (() => void) | undefined;

  constructor(options: TransportOptions) {
    this.#options = options;
    const { servers, sessionTimeoutMs, auth } = options;
    const { ACL, createClient } = zookeeper as unknown as Package;
    // `retries` must stay 0: the package would repeat even a create that was executed.
    this.#client = createClient(servers.map(({ host, port }) => `${host}:${port}`).join(","), {
      sessionTimeout: sessionTimeoutMs,
      retries: 0,
    });
    const attemptMs = Math.min(Math.max(sessionTimeoutMs / 3, 200), 2_000);
    this.#guard = new ClientGuard(this.#client, { servers, attemptMs });
    this.#acl = auth === undefined ? ACL.OPEN_ACL_UNSAFE : ACL.CREATOR_ALL_ACL;
    if (auth !== undefined) this.#client.addAuthInfo(auth.scheme, Buffer.from(auth.credentials));
    this.#client.on("connected", () => {
      this.epoch++;
      this.#become("connected");
      this.#onConnected?.();
    });
    this.#client.on("disconnected", () => {
      if (this.state === "closed") this.#onClosed?.();
      if (this.state !== "connected") return;
      this.#become("suspended");
      // The package does not answer a request on whose reply it failed.
      this.#failAll(this.#connectionLost());
      this.#watches.drop();
    });
    this.#client.on("expired", () => {
      this.#onClosed?.();
      this.#become("expired");
    });
    this.#client.on("authenticationFailed", () => {
      this.#failAll(new ZooKeeperError("AUTH_FAILED", "ZooKeeper refused the credentials"));
      this.#become("refused");
    });
    this.#client.connect();
  }

  get timeoutMs(): number {
    return this.epoch === 0 ? 0 : this.#client.getSessionTimeout();
  }

  get connectError(): unknown {
    return this.#guard.connectError;
  }

  listen(listener: TransportListener): void {
    this.#listener = listener;
  }

  createSequential(pathPrefix: string, data: Uint8Array): Promise<string> {
    return this.#create(pathPrefix, Buffer.from(data), EPHEMERAL_SEQUENTIAL);
  }

  async createEphemeral(path: string): Promise<void> {
    await this.#create(path, null, EPHEMERAL);
  }

  async createPersistent(path: string): Promise<void> {
    await this.#create(path, null, PERSISTENT);
  }

  children(path: string): Promise<Children> {
    return this.#request(
      (done: Done<[string[] | undefined, Stat]>) => this.#client.getChildren(path, done),
      (names, { pzxid }) => ({ names: names ?? [], pzxid: pzxid.readBigInt64BE() }),
    );
  }

  async get(path: string, watcher?: Watcher): Promise<Znode> {
    // Added before the request is sent: an event may arrive directly after the answer.
    const relay = watcher === undefined ? undefined : this.#watches.add(path, watcher);
    try {
      return await this.#request(
        (done: Done<[Buffer | undefined, Stat]>) => this.#client.getData(path, relay, done),
        (data, { czxid, ctime }) => {
          if (relay !== undefined) this.#watches.confirm(path);
          return {
            data: data ?? Buffer.alloc(0),
            czxid: czxid.readBigInt64BE(),
            createdAtMs: Number(ctime.readBigInt64BE()),
          };
        },
      );
    } catch (error) {
      if (watcher !== undefined) this.#watches.fail(path, watcher);
      throw error;
    }
  }

  unwatch(path: string, watcher: Watcher): void {
    this.#watches.remove(path, watcher);
  }

  set(path: string): Promise<void> {
    return this.#request(
      (done: Done<[]>) => this.#client.setData(path, Buffer.alloc(0), done),
      () => {},
    );
  }

  delete(path: string): Promise<void> {
    return this.#request((done: Done<[]>) => this.#client.remove(path, done), () => {});
  }

  async close(timeoutMs: number): Promise<void> {
    if (timeoutMs > 0) {
      const { promise, resolve } = Promise.withResolvers<void>();
      const timer = setTimeout(resolve, timeoutMs);
      this.#onClosed = resolve;
      // Without a connection, the request to close the session cannot be sent.
      this.#onConnected = () => {
        this.state = "closed";
        this.#client.close();
      };
      if (this.state === "connected") this.#onConnected();
      else if (this.state !== "suspended") resolve();
      await promise;
      clearTimeout(timer);
    }
    this.destroy();
  }

  destroy(): void {
    if (this.#isDestroyed) return;
    // Not now: the caller may be deep in a recursion, and a socket that is destroyed where the stack is
    // used up never closes. The stack is empty then.
    queueMicrotask(() => this.#free());
    this.#isDestroyed = true;
    this.state = "closed";
  }

  #free(): void {
    this.state = "closed";
    this.#guard.destroy();
    this.#watches.clear();
    this.#failAll(new ZooKeeperError("SESSION_OVER", "The session was closed"));
    this.#listener?.onStateChange("closed");
  }

  #failAll(error: ZooKeeperError): void {
    for (const fail of [...this.#pending]) fail(error);
  }

  #become(state: TransportState): void {
    if (this.state === "closed") return;
    this.state = state;
    this.#listener?.onStateChange(state);
  }

  #create(path: string, data: Buffer | null, mode: number): Promise<string> {
    return this.#request(
      (done: Done<[string]>) => this.#client.create(path, data, this.#acl, mode, done),
      (path) => path,
    );
  }

  /** Sends a request now or, without a connection, not at all. Settles it within its time limit. */
  #request<V extends unknown[], T>(send: (done: Done<V>) => void, read: (...values: V) => T) {
    return new Promise<T>((resolve, reject) => {
      if (this.state !== "connected") throw this.#notConnected();
      const { epoch } = this;
      const limitMs = requestLimitMs(this.#options, this.timeoutMs);
      const end = () => {
        clearTimeout(timer);
        this.#pending.delete(fail);
      };
      const fail = (error: ZooKeeperError) => (end(), reject(error));
      const giveUp = () => {
        fail(new ZooKeeperError("TIMEOUT", `ZooKeeper did not answer in ${limitMs} ms`));
        // Answers arrive in order, so while this one is missing, no later one can arrive.
        if (this.epoch === epoch && this.state === "connected") this.#guard.reconnect();
      };
      // Waits one more turn of the event loop: if that was blocked, the socket may hold the answer.
      let timer = setTimeout(() => timer = setTimeout(giveUp), limitMs);
      this.#pending.add(fail);
      try {
        // An answer after the deadline is ignored: after a create, the caller searches for its znode.
        send((error, ...values) =>
          error ? fail(this.#errorOf(error)) : (end(), resolve(read(...values)))
        );
      } catch (cause) {
        fail(new ZooKeeperError("REFUSED", "The client package refused the request", { cause }));
      }
    });
  }

  #errorOf(error: { code: number }): ZooKeeperError {
    return error.code === CONNECTION_LOSS ? this.#connectionLost() : toError(error);
  }

  #connectionLost(): ZooKeeperError {
    const message = "The connection to ZooKeeper was lost";
    return new ZooKeeperError("CONNECTION_LOSS", message, this.#whyLost());
  }

  #whyLost(): ErrorOptions {
    return this.connectError === undefined ? {} : { cause: this.connectError };
  }

  #notConnected(): ZooKeeperError {
    if (this.state === "connecting" || this.state === "suspended") {
      const message = "There is no connection to ZooKeeper";
      return new ZooKeeperError("NOT_CONNECTED", message, this.#whyLost());
    }
    return new ZooKeeperError("SESSION_OVER", `The session is over: ${this.state}`);
  }
}

/** Opens a transport over `npm:node-zookeeper-client`. It starts to connect at once. */
export function openNodeZooKeeperClient(options: TransportOptions): ZooKeeperTransport {
  return new NodeZooKeeperTransport(options);
}
