/**
 * Workarounds for failures of node-zookeeper-client 1.1.3. No other module touches private parts of the
 * package. Because this one does, the package is pinned to the version whose source was read.
 *
 * @module
 */
import { Buffer } from "node:buffer";
import type { ServerAddress } from "./connect_string.ts";
import { Fifo } from "./fifo.ts";
import { Frames, ProtocolError } from "./frames.ts";

/** A request that was not sent or not answered yet. */
interface Packet {
  readonly request: { readonly header: { readonly xid: number } };
  callback(error: { code: number }): void;
}

interface Socket {
  readonly destroyed: boolean;
  destroy(): void;
  cork(): void;
  uncork(): void;
  on(event: "error", listener: (error: unknown) => void): void;
}

/** The private parts that are used, as of 1.1.3. */
interface ConnectionManager {
  readonly socket?: Socket;
  readonly connectTimeoutHandler: ReturnType<typeof setTimeout> | null;
  readonly packetQueue: { readonly queue: Packet[] };
  /** The package calls `push()` and `shift()` only. */
  pendingQueue: Pick<Fifo<Packet>, "push" | "shift">;
  readonly state: number;
  /** The number of the next request. */
  xid: number;
  readonly watcherManager: { dataWatchers: Record<string, unknown> };
  serverAttempts: number;
  findNextServer(callback: (server: ServerAddress) => void): void;
  onSocketData(bytes: Buffer): void;
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
const CONNECTING = 1;
const CONNECTED = 2;
const CLOSING = -1;
/** The package's code for a request whose connection was lost before the answer. */
export const CONNECTION_LOSS = -4;
const MAX_XID = 2 ** 31 - 1;
/** Where a frame has the number of its request, behind its length. */
const XID_AT = 4;
/** Minimum length of a reply, with its length before it. */
const REPLY_BYTES = 20;

/** Protects one client of the package from its known failures. */
export class ClientGuard {
  /**
   * Why the last attempt to connect failed, or the connection was dropped; `undefined` while there is
   * a connection. The package ignores it.
   */
  connectError: unknown = undefined;
  readonly #manager: ConnectionManager;
  readonly #options: GuardOptions;
  /** The requests that were sent and not answered yet. */
  readonly #unanswered = new Fifo<Packet>();
  /** The bytes that have arrived on this connection. */
  #frames = new Frames();
  #heardMs = -Infinity;
  /** The socket that gathers requests. */
  #gathering: Socket | undefined;
  #nextServer = 0;
  #isDestroyed = false;
  #pauseTimer: ReturnType<typeof setTimeout> | undefined;
  #attemptTimer: ReturnType<typeof setTimeout> | undefined;

  /** Must be called before the client connects. */
  constructor(client: GuardedClient, options: GuardOptions) {
    this.#manager = client.connectionManager;
    this.#options = options;
    this.#manager.on("state", (state) => this.#onState(state));
    this.#manager.pendingQueue = this.#unanswered;
    wrapXids(this.#manager);
    // The package splits IPv6 addresses at their first colon, and cannot be stopped while it pauses.
    this.#manager.findNextServer = (connect) => this.#findNextServer(connect);
    const handleFrame = this.#manager.onSocketData.bind(this.#manager);
    this.#manager.onSocketData = (chunk) => this.#onSocketData(chunk, handleFrame);
  }

  /** How long in ms nothing has arrived from a server; `Infinity` before the first connection. */
  get silentMs(): number {
    return performance.now() - this.#heardMs;
  }

  /** Whether a reply or an event has arrived in part. */
  get isReceiving(): boolean {
    return this.#frames.isPartial;
  }

  /** Makes the requests that are sent directly after this leave together: each packet costs time. */
  gather(): void {
    const { socket } = this.#manager;
    if (socket === undefined || socket === this.#gathering) return;
    this.#gathering = socket;
    socket.cork();
    queueMicrotask(() => {
      this.#gathering = undefined;
      socket.uncork();
    });
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
    // Half a reply is not the beginning of the next connection's first reply.
    this.#frames = new Frames();
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
   * Hands the replies in a chunk to the package one by one. The package alone would handle each of them
   * inside the one before, and the stack has room for about 2,000; a chunk holds up to 3,276.
   */
  #onSocketData(chunk: Buffer, handleFrame: (frame: Buffer) => void): void {
    this.#heardMs = performance.now();
    const frames = this.#frames;
    const { socket } = this.#manager;
    try {
      frames.add(chunk);
      while (socket?.destroyed === false) {
        const frame = frames.next();
        if (frame === null) break;
        this.#handle(frame, handleFrame);
      }
    } catch (error) {
      // The rest of the bytes cannot be understood. An error that is thrown here, in the socket's event
      // handler, would end the process.
      this.connectError = error;
      socket?.destroy();
    }
  }

  #handle(frame: Buffer, handleFrame: (frame: Buffer) => void): void {
    const packet = this.#unanswered.first;
    if (this.#manager.state !== CONNECTING) checkOrder(frame, packet);
    try {
      handleFrame(frame);
    } catch (error) {
      const code = unknownCode(error);
      if (code === null || packet === undefined) throw error;
      // On an unknown error code, the package has forgotten the request.
      packet.callback({ code });
    }
  }
}

/**
 * Checks that a reply belongs to the oldest unanswered request. The package would reconnect, but forget
 * that request.
 */
function checkOrder(frame: Buffer, packet: Packet | undefined): void {
  if (frame.length < REPLY_BYTES) {
    throw new ProtocolError(`A reply has only ${frame.length - XID_AT} bytes`);
  }
  const xid = frame.readInt32BE(XID_AT);
  const expected = packet?.request.header.xid;
  // Pings, events and the answer to credentials have negative numbers.
  if (xid < 0 || xid === expected) return;
  throw new ProtocolError(`A reply is for request ${xid} instead of ${expected ?? "none"}`);
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
