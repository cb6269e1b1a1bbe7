/**
 * Workarounds for failures of node-zookeeper-client 1.1.3. Only this module and `client_internals.ts`
 * touch private parts of the package, so it is pinned to the version whose source was read.
 *
 * @module
 */
import type { Buffer } from "node:buffer";
import {
  checkOrder,
  CLOSING,
  CONNECTED,
  CONNECTING,
  CONNECTION_LOSS,
  type ConnectionManager,
  DISCONNECTED,
  type Packet,
  type Socket,
  unknownCode,
  wrapXids,
} from "./client_internals.ts";
import type { ServerAddress } from "./connect_string.ts";
import { Fifo } from "./fifo.ts";
import { Frames } from "./frames.ts";
import { ServerRotation } from "./server_rotation.ts";

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
  /** Maximum pause in ms between two rounds in which no server accepted the session. */
  readonly maxPauseMs: number;
}

/** Minimum time in ms between two attempts to connect of which a call requested the second one. */
const MIN_PAUSE_MS = 500;

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
  readonly #rotation: ServerRotation;
  #isDestroyed = false;
  /** Makes the next attempt to connect; `null` unless there is a pause before it. */
  #attempt: (() => void) | null = null;
  #attemptedMs = -Infinity;
  #pauseTimer: ReturnType<typeof setTimeout> | undefined;
  #attemptTimer: ReturnType<typeof setTimeout> | undefined;

  /** Must be called before the client connects. */
  constructor(client: GuardedClient, options: GuardOptions) {
    this.#manager = client.connectionManager;
    this.#options = options;
    this.#rotation = new ServerRotation(options.servers, options.maxPauseMs);
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

  /** Ends a pause between two attempts to connect. */
  connectNow(): void {
    const sinceMs = performance.now() - this.#attemptedMs;
    if (this.#attempt === null || this.#rotation.pauseMs - sinceMs < MIN_PAUSE_MS) return;
    clearTimeout(this.#pauseTimer);
    // With many calls, this is still a pause.
    this.#pauseTimer = setTimeout(this.#attempt, Math.max(0, MIN_PAUSE_MS - sinceMs));
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
      this.#rotation.accepted();
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
    this.#attempt = () => {
      this.#attempt = null;
      this.#attemptedMs = performance.now();
      connect(this.#rotation.next());
      this.#manager.socket?.on("error", (error) => this.connectError = error);
      // The package has no time limit for a server that accepts the connection but not the session.
      this.#attemptTimer = setTimeout(() => {
        this.connectError = new Error("The server did not accept the session in time");
        this.reconnect();
      }, this.#options.attemptMs);
    };
    this.#pauseTimer = setTimeout(this.#attempt, this.#rotation.pauseMs);
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
