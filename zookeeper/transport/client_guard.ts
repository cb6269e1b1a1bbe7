/**
 * What must be mended in node-zookeeper-client 1.1.3 from outside. This is the one place that touches
 * private parts of the package, so the package stays pinned to the version that was read.
 *
 * @module
 */
import { Buffer } from "node:buffer";
import type { ServerAddress } from "./connect_string.ts";

/** A request that waits to be sent or answered. */
interface Packet {
  callback(error: { code: number }): void;
}

interface Socket {
  destroy(): void;
  on(event: "error", listener: (error: unknown) => void): void;
}

/** The private parts, as they are in 1.1.3. */
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

/** How to connect. */
export interface GuardOptions {
  /** The servers, in the order in which they are tried. */
  readonly servers: readonly ServerAddress[];
  /** How long one server may take in ms to accept the connection and the session. */
  readonly attemptMs: number;
}

/** Pause in ms after every server has been tried in vain. */
const RETRY_PAUSE_MS = 200;
const DISCONNECTED = 0;
const CONNECTED = 2;
const CLOSING = -1;
const CONNECTION_LOSS = -4;
const MAX_XID = 2 ** 31 - 1;

/** Keeps one client of the package from its known failures. */
export class ClientGuard {
  /** Why the last attempt to connect failed: the package swallows it. */
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

  /** Drops the connection. The package then connects to the next server, for the same session. */
  reconnect(): void {
    // The package never notices by itself that answers have stopped.
    this.#manager.socket?.destroy();
  }

  /** Ends the client without a word to the server. It never connects again. */
  destroy(): void {
    if (this.#isDestroyed) return;
    this.#isDestroyed = true;
    clearTimeout(this.#pauseTimer);
    // `close()` would wait for a connection, perhaps for ever; in this state none is made.
    this.#manager.setState(CLOSING);
    this.#clear();
    this.#manager.socket?.destroy();
  }

  #onState(state: number): void {
    if (state === CONNECTED) clearTimeout(this.#attemptTimer);
    if (state === DISCONNECTED) this.#clear();
  }

  /** Makes the package forget the connection that was lost: it keeps what it must not. */
  #clear(): void {
    clearTimeout(this.#attemptTimer);
    // Left running, it would destroy the next socket.
    clearTimeout(this.#manager.connectTimeoutHandler ?? undefined);
    // Half a reply would be taken for the start of the next connection's first one.
    this.#manager.pendingBuffer = null;
    // It would set all watches again by one request, which the server refuses if it is too long: each
    // connection would be closed again, for ever. They went with the connection, and whoever has set
    // one is told.
    this.#manager.watcherManager.dataWatchers = {};
    // What was not sent would be sent later, after its own deadline, or be forgotten.
    for (const packet of this.#manager.packetQueue.queue.splice(0)) {
      packet.callback({ code: CONNECTION_LOSS });
    }
  }

  #findNextServer(connect: (server: ServerAddress) => void): void {
    if (this.#isDestroyed) return;
    const { servers, attemptMs } = this.#options;
    const isRoundOver = this.#manager.serverAttempts >= servers.length;
    // Set back by the package when a server accepts the session.
    this.#manager.serverAttempts = isRoundOver ? 1 : this.#manager.serverAttempts + 1;
    this.#pauseTimer = setTimeout(() => {
      connect(servers[this.#nextServer++ % servers.length]!);
      this.#manager.socket?.on("error", (error) => this.connectError = error);
      // A server that accepts the connection and says no more is not waited for by the package.
      this.#attemptTimer = setTimeout(() => {
        this.connectError = new Error("The server did not accept the session in time");
        this.reconnect();
      }, attemptMs);
    }, isRoundOver ? RETRY_PAUSE_MS * (0.5 + Math.random() / 2) : 0);
  }

  /** The package throws out of the socket's handler, which would end the process. */
  #onSocketData(onSocketData: (chunk: Buffer) => void, chunk: Buffer): void {
    const manager = this.#manager;
    const [packet] = manager.pendingQueue;
    try {
      onSocketData.call(manager, chunk);
    } catch (error) {
      const code = unknownCode(error);
      if (code === null || packet === undefined || packet === manager.pendingQueue[0]) {
        // The stream cannot be understood from here on.
        manager.socket?.destroy();
        return;
      }
      // It lost the request whose error code it does not know, and the rest of the chunk.
      packet.callback({ code });
      if (manager.pendingBuffer !== null) manager.onSocketData(Buffer.alloc(0));
    }
  }
}

/**
 * The package counts its requests past what 32 bits hold, and from there on throws at each of them.
 * Begun again at 1 the numbers stay right: the server gives them back unread, in the order of the
 * requests, and the package compares each with the oldest request only. Not at 0, as the package
 * does: servers before 3.8 take a request of that number to be under way for ever.
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
