/**
 * The port over node-zookeeper-client 1.1.3, which keeps the session: it asks for it, sends credentials
 * and pings, and closes it. Sockets (`connector.ts`) and requests (`requests.ts`) are ours: ADR 36.
 *
 * @module
 */
import { Buffer } from "node:buffer";
import type { Socket } from "node:net";
import { type Instant, instant, SYSTEM_CLOCK } from "../../core/time/clock.ts";
import { loadClient } from "./client_module.ts";
import { Connector, type ConnectorListener } from "./connector.ts";
import { ZooKeeperError } from "./failures.ts";
import { requestLimitMs, Requests, type RequestsListener } from "./requests.ts";
import type {
  TransportListener,
  TransportOptions,
  TransportState,
  ZooKeeperTransport,
} from "./transport.ts";
import { Watches } from "./watches.ts";
import { CODE_AT, readEvent, Replies, ZXID_AT } from "./wire.ts";

interface Client {
  /**
   * The private parts of the package that we use: it is pinned to the version whose source was read. It calls
   * `connect()` again when a socket was closed and the session is not over.
   */
  readonly connectionManager: {
    /** Where it writes, and whose time-out makes it send a ping. */
    socket?: Socket;
    /** The last zxid that a server has answered with. It is sent to the next server. */
    readonly zxid: Buffer;
    /** What it has not sent yet: the credentials, until the session is accepted. */
    readonly packetQueue: { readonly queue: unknown[] };
    connect(): void;
    setState(state: number): void;
    onSocketConnected(): void;
    onSocketData(frame: Buffer): void;
    onSocketClosed(): void;
  };
  connect(): void;
  close(): void;
  addAuthInfo(scheme: string, auth: Buffer): void;
  getSessionTimeout(): number;
  on(
    event: "connected" | "disconnected" | "expired" | "authenticationFailed",
    listener: () => void,
  ): void;
}

/** The package's state of a connection whose session is not accepted yet. */
const CONNECTING = 1;
/** The number of a message that is no reply: the event of a watch. */
const EVENT_XID = -1;
const PING_XID = -2;
/** The package's own list of servers is not used. */
const UNUSED = "unused:1";

class NodeZooKeeperTransport implements ZooKeeperTransport, ConnectorListener, RequestsListener {
  state: TransportState = "connecting";
  epoch = 0;
  requestedAt = instant(SYSTEM_CLOCK);
  readonly requests = new Requests(this);
  readonly watches = new Watches();
  readonly #options: TransportOptions;
  readonly #client: Client;
  readonly #manager: Client["connectionManager"];
  readonly #connector: Connector;
  #listener: TransportListener | null = null;
  #replies = new Replies();
  /** When the last bytes have arrived, and the last whole message; in monotonic ms. */
  #bytesMs = -Infinity;
  #heardMs = -Infinity;
  /** When the unanswered pings of the current connection were sent. They are answered in this order. */
  #pinged: Instant[] = [];
  #dropError: unknown;
  #onConnected: (() => void) | undefined;
  #onClosed: (() => void) | undefined;

  constructor(options: TransportOptions) {
    this.#options = options;
    const { sessionTimeoutMs, auth } = options;
    this.#connector = new Connector(options, this);
    const { createClient } = loadClient() as {
      createClient(connectString: string, options: { sessionTimeout: number }): Client;
    };
    this.#client = createClient(UNUSED, { sessionTimeout: sessionTimeoutMs });
    this.#manager = this.#client.connectionManager;
    // The package has no TLS, does not try another address of a host that accepted a connection, splits
    // IPv6 addresses at their first colon, and cannot be stopped while it pauses.
    this.#manager.connect = () => {
      this.#manager.setState(CONNECTING);
      void this.#connector.next();
    };
    if (auth !== undefined) this.#client.addAuthInfo(auth.scheme, Buffer.from(auth.credentials));
    this.#listenToClient();
    this.#client.connect();
  }

  get timeoutMs(): number {
    return this.epoch === 0 ? 0 : this.#client.getSessionTimeout();
  }

  get silentMs(): number {
    return performance.now() - this.#heardMs;
  }

  get isFailing(): boolean {
    return this.#connector.error !== undefined;
  }

  get connectError(): unknown {
    return this.#connector.error ?? this.#dropError ?? this.#connector.pendingError;
  }

  get limitMs(): number {
    return requestLimitMs(this.#options, this.timeoutMs);
  }

  setListener(listener: TransportListener): void {
    this.#listener = listener;
  }

  connectNow(): void {
    this.#connector.connectNow();
  }

  async close(timeoutMs: number): Promise<void> {
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
    this.destroy();
  }

  destroy(): void {
    // Not now: the caller may be deep in a recursion, and a socket that is destroyed where the stack is
    // used up never closes. The stack is empty then.
    queueMicrotask(() => this.#free());
    this.state = "closed";
  }

  notConnected(): ZooKeeperError {
    if (this.state === "closed") return sessionClosed();
    if (this.state === "expired" || this.state === "refused") {
      return new ZooKeeperError("SESSION_OVER", `The session is over: ${this.state}`);
    }
    return this.#failure("NOT_CONNECTED", "There is no connection to ZooKeeper");
  }

  onOverdue(): void {
    if (this.state !== "connected") return; // it is closing, for which `close()` has its own limit
    const { limitMs } = this;
    const isArriving = this.#replies.isPartial && performance.now() - this.#bytesMs < limitMs;
    if (isArriving && this.requests.postpone()) return; // a long answer
    this.requests.failAll(
      new ZooKeeperError("TIMEOUT", `ZooKeeper did not answer for ${limitMs} ms`),
    );
    // The package itself does not notice that answers have stopped. It resumes the session elsewhere.
    this.#manager.socket?.destroy();
  }

  onSocket(socket: Socket, readyEvent: "connect" | "secureConnect"): void {
    this.#manager.socket = this.requests.socket = socket;
    // Half a reply of the last connection is not the beginning of this one's first reply.
    this.#replies = new Replies();
    this.#pinged = [];
    socket.setNoDelay();
    socket.on(readyEvent, () => {
      this.requestedAt = instant(SYSTEM_CLOCK);
      this.#manager.onSocketConnected();
    });
    socket.on("timeout", () => this.#pinged.push(instant(SYSTEM_CLOCK)));
    socket.on("data", this.#onData.bind(this, socket));
    socket.on("error", (error) => this.#dropError = error);
    socket.on("close", () => {
      // The package would send these credentials and those of the next connection.
      this.#manager.packetQueue.queue.length = 0;
      this.#manager.onSocketClosed();
    });
  }

  onUnusable(): void {
    this.#become("refused");
  }

  #listenToClient(): void {
    this.#client.on("connected", () => this.#connector.accepted());
    this.#client.on("disconnected", () => this.#onDisconnected());
    this.#client.on("expired", () => {
      this.#onClosed?.();
      this.#become("expired");
    });
    this.#client.on("authenticationFailed", () => {
      this.requests.failAll(
        new ZooKeeperError("AUTH_FAILED", "ZooKeeper refused the credentials"),
      );
      this.#become("refused");
    });
  }

  #onData(socket: Socket, chunk: Buffer): void {
    this.#bytesMs = performance.now();
    const replies = this.#replies;
    try {
      replies.add(chunk);
      while (!socket.destroyed && replies.next()) this.#onFrame(replies);
    } catch (error) {
      // The rest of the bytes cannot be understood. An error that is thrown here, in the socket's event
      // handler, would end the process.
      this.#dropError = error;
      this.#connector.cannotRead(error);
      socket.destroy();
    }
  }

  #onFrame(reply: Replies): void {
    this.#heardMs = this.#bytesMs;
    if (this.#connector.attempt !== null) return this.#onSessionAnswer(reply.frame);
    const { xid } = reply;
    if (xid > 0) {
      this.requests.answer(reply);
      if (this.#connector.unproven !== null) this.#connector.proven();
      reply.frame.copy(this.#manager.zxid, 0, ZXID_AT, CODE_AT);
    } else if (xid === EVENT_XID) {
      const { path, event } = readEvent(reply);
      this.watches.fire(path, event);
    } else {
      const pinged = xid === PING_XID ? this.#pinged.shift() : undefined;
      if (pinged !== undefined) this.#listener?.onPing(pinged);
      // A ping, the credentials, or the end of the session, the package's only request with a number: 0.
      this.#manager.onSocketData(reply.frame);
    }
  }

  #onSessionAnswer(frame: Buffer): void {
    this.#manager.onSocketData(frame);
    if (this.#connector.attempt !== null) return;
    // Only now has the package sent the credentials, which requests need.
    this.#dropError = undefined;
    this.epoch++;
    this.#become("connected");
    this.#onConnected?.();
  }

  #onDisconnected(): void {
    if (this.state === "closed") this.#onClosed?.();
    if (this.state !== "connected") return;
    this.state = "suspended";
    this.requests.failAll(
      this.#failure("CONNECTION_LOSS", "The connection to ZooKeeper was lost"),
    );
    this.#listener?.onStateChange("suspended");
    // The watches are lost with their connection.
    this.watches.drop();
  }

  #become(state: TransportState): void {
    if (this.state === "closed") return;
    this.state = state;
    this.#listener?.onStateChange(state);
  }

  #free(): void {
    this.#connector.stop();
    this.#manager.socket?.destroy();
    this.requests.failAll(sessionClosed());
    this.#listener?.onStateChange("closed");
  }

  #failure(code: "NOT_CONNECTED" | "CONNECTION_LOSS", message: string): ZooKeeperError {
    const cause = this.connectError;
    return new ZooKeeperError(code, message, cause === undefined ? {} : { cause });
  }
}

function sessionClosed(): ZooKeeperError {
  return new ZooKeeperError("SESSION_OVER", "The session was closed");
}

/** Opens a transport over `npm:node-zookeeper-client`. It starts to connect at once. */
export function openNodeZooKeeperClient(options: TransportOptions): ZooKeeperTransport {
  return new NodeZooKeeperTransport(options);
}
