/**
 * Workarounds for failures of node-zookeeper-client 1.1.3. This is the only module that touches private
 * parts of the package, so the package stays pinned to the version that was read.
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

  /** Drops the connection. The package then connects to the next server, for the same session. */
  reconnect(): void {
    // The package does not notice that answers have stopped.
    this.#manager.socket?.destroy();
  }

  /** Ends the client without notifying the server. It never connects again. */
  destroy(): void {
    if (this.#isDestroyed) return;
    this.#isDestroyed = true;
    clearTimeout(this.#pauseTimer);
    // `close()` would wait for a connection, perhaps for ever. In this state the package makes none.
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

  /** Clears the state of the lost connection, which the package would use on the next one. */
  #clear(): void {
    clearTimeout(this.#attemptTimer);
    // This timer would destroy the next socket.
    clearTimeout(this.#manager.connectTimeoutHandler ?? undefined);
    // The package would read half a reply as the start of the next connection's first reply.
    this.#manager.pendingBuffer = null;
    // The package would set all watches again in one request. If that is too long, the server closes
    // each new connection. All watches are lost with the connection, and each watcher is notified.
    this.#manager.watcherManager.dataWatchers = {};
    // The package would send queued requests later, after their deadlines, or forget them.
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

  /** The package throws in the socket's event handler, which would end the process. */
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
      // The package lost the request whose error code is unknown, and the rest of the chunk.
      packet.callback({ code });
      if (manager.pendingBuffer !== null) manager.onSocketData(Buffer.alloc(0));
    }
  }
}

/**
 * Restarts the numbers of requests at 1 before they exceed 32 bits: the package counts on and then
 * throws at each request. Reused numbers are safe: the server returns them unread, in the order of the
 * requests, and the package compares each with the oldest pending request only. The package itself
 * starts at 0, but a server before 3.8 treats request 0 as pending for ever.
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
