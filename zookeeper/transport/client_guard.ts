/**
 * Workarounds for failures of node-zookeeper-client 1.1.3. No other module touches private parts of the
 * package. Because this one does, the package is pinned to the version whose source was read.
 *
 * @module
 */
import { Buffer } from "node:buffer";
import type { ServerAddress } from "./connect_string.ts";

/** A request that was not sent or not answered yet. */
interface Packet {
  callback(error: { code: number }): void;
}

interface Socket {
  destroy(): void;
  on(event: "error", listener: (error: unknown) => void): void;
}

/** The private parts that are used, as of 1.1.3. */
interface ConnectionManager {
  readonly socket?: Socket;
  readonly connectTimeoutHandler: ReturnType<typeof setTimeout> | null;
  readonly packetQueue: { readonly queue: Packet[] };
  readonly pendingQueue: readonly Packet[];
  pendingBuffer: Buffer | null;
  /** The number of the next request. */
  xid: number;
  readonly watcherManager: { dataWatchers: Record<string, unknown> };
  serverAttempts: number;
  findNextServer(callback: (server: ServerAddress) => void): void;
  onSocketData(chunk: Buffer): void;
  on(event: "state", listener: (state: number) => void): void;
  setState(state: number): void;
}

/** A client of the package. */
export interface GuardedClient {
  readonly connectionManager: ConnectionManager;
}

/** The options of a guard. */
export interface GuardOptions {
  /** The servers, in the order in which they are tried. */
  readonly servers: readonly ServerAddress[];
  /** How long in ms one server may take to accept the connection and the session. */
  readonly attemptMs: number;
}

/** Pause in ms after each round in which no server accepted the session. */
const RETRY_PAUSE_MS = 200;
const DISCONNECTED = 0;
const CONNECTED = 2;
const CLOSING = -1;
const CONNECTION_LOSS = -4;
const MAX_XID = 2 ** 31 - 1;

/** Protects one client of the package from its known failures. */
export class ClientGuard {
  /** The error of the last attempt to connect, if it failed. The package ignores it. */
  connectError: unknown = undefined;
  readonly #manager: ConnectionManager;
  readonly #options: GuardOptions;
  #nextServer = 0;
  #isDestroyed = false;
  #pauseTimer: ReturnType<typeof setTimeout> | undefined;
  #attemptTimer: ReturnType<typeof setTimeout> | undefined;

  /** Must be called before the client connects. */
  constructor(client: GuardedClient, options: GuardOptions) {
    this.#manager = client.connectionManager;
    this.#options = options;
    this.#manager.on("state", (state) => this.#onState(state));
    wrapXids(this.#manager);
    // The package splits IPv6 addresses at their first colon, and cannot be stopped while it pauses.
    this.#manager.findNextServer = (connect) => this.#findNextServer(connect);
    const { onSocketData } = this.#manager;
    this.#manager.onSocketData = (chunk) => this.#onSocketData(onSocketData, chunk);
  }

  /** Drops the connection. The package then connects to the next server and resumes the session. */
  reconnect(): void {
    // The package itself does not notice that answers have stopped.
    this.#manager.socket?.destroy();
  }

  /** Ends the client without notifying the server. It never connects again. */
  destroy(): void {
    if (this.#isDestroyed) return;
    this.#isDestroyed = true;
    clearTimeout(this.#pauseTimer);
    // `close()` could wait for a connection for ever. In this state the package makes no connection.
    this.#manager.setState(CLOSING);
    this.#clear();
    this.#manager.socket?.destroy();
  }

  #onState(state: number): void {
    if (state === CONNECTED) {
      clearTimeout(this.#attemptTimer);
      this.connectError = undefined;
    }
    if (state === DISCONNECTED) this.#clear();
  }

  /** Clears the state of the lost connection, because the package would use it on the next one. */
  #clear(): void {
    clearTimeout(this.#attemptTimer);
    // This timer would destroy the next socket.
    clearTimeout(this.#manager.connectTimeoutHandler ?? undefined);
    // The package would read half a reply as the start of the next connection's first reply.
    this.#manager.pendingBuffer = null;
    // The package would set all watches again in one request, and if that is too long, the server closes
    // each new connection. Here all watches are lost with the connection, and each watcher is notified.
    this.#manager.watcherManager.dataWatchers = {};
    // The package would send queued requests after their deadlines, or never answer them.
    for (const packet of this.#manager.packetQueue.queue.splice(0)) {
      packet.callback({ code: CONNECTION_LOSS });
    }
  }

  #findNextServer(connect: (server: ServerAddress) => void): void {
    if (this.#isDestroyed) return;
    const { servers, attemptMs } = this.#options;
    const isRoundOver = this.#manager.serverAttempts >= servers.length;
    // The package resets this number when a server accepts the session.
    this.#manager.serverAttempts = isRoundOver ? 1 : this.#manager.serverAttempts + 1;
    this.#pauseTimer = setTimeout(() => {
      connect(servers[this.#nextServer++ % servers.length]!);
      this.#manager.socket?.on("error", (error) => this.connectError = error);
      // The package has no time limit for a server that accepts the connection but not the session.
      this.#attemptTimer = setTimeout(() => {
        this.connectError = new Error("The server did not accept the session in time");
        this.reconnect();
      }, attemptMs);
    }, isRoundOver ? RETRY_PAUSE_MS * (0.5 + Math.random() / 2) : 0);
  }

  /**
   * Handles data from the server. The package may throw here, in the socket's event handler, and that
   * would end the process.
   */
  #onSocketData(onSocketData: (chunk: Buffer) => void, chunk: Buffer): void {
    const manager = this.#manager;
    const [packet] = manager.pendingQueue;
    try {
      onSocketData.call(manager, chunk);
    } catch (error) {
      const code = unknownCode(error);
      if (code === null || packet === undefined || packet === manager.pendingQueue[0]) {
        // The rest of the stream cannot be parsed.
        manager.socket?.destroy();
        return;
      }
      // On an unknown error code, the package has forgotten the request and the rest of the chunk.
      packet.callback({ code });
      if (manager.pendingBuffer !== null) manager.onSocketData(Buffer.alloc(0));
    }
  }
}

/**
 * Restarts the numbers of requests at 1 before they exceed 32 bits. The package would count on, and
 * throw at each request from then on. Reusing numbers is safe: the server only returns them, in the order
 * of the requests, and the package compares each with the oldest pending request only. The package
 * starts at 0, but a server before 3.8 treats request 0 as pending for ever, so we start at 1.
 */
function wrapXids(manager: ConnectionManager): void {
  let next = 1;
  Object.defineProperty(manager, "xid", {
    get: () => next,
    set: (xid: number) => next = xid > MAX_XID ? 1 : xid,
  });
}

function unknownCode(error: unknown): number | null {
  const digits = error instanceof Error && /^Unknown code: (-?\d+)$/.exec(error.message)?.[1];
  return digits ? Number(digits) : null;
}
