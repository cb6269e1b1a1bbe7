/**
 * Workarounds for failures of node-zookeeper-client 1.1.3. Only this module and `client_internals.ts`
 * touch private parts of the package, so it is pinned to the version whose source was read.
 *
 * @module
 */
import type { Buffer } from "node:buffer";
import {
  answer,
  checkOrder,
  CLOSING,
  CONNECTED,
  CONNECTING,
  CONNECTION_LOSS,
  type ConnectionManager,
  DISCONNECTED,
  EVENT_XID,
  type Packet,
  type Socket,
  unknownCode,
  wrapXids,
} from "./client_internals.ts";
import { Connector, type ConnectorListener, type ConnectorOptions } from "./connector.ts";
import { Fifo } from "./fifo.ts";
import { Frames } from "./frames.ts";
import { ReplyReader } from "./reply_reader.ts";

/** A client of the package. */
export interface GuardedClient {
  readonly connectionManager: ConnectionManager;
}

/** Is notified by a guard. */
export interface ClientGuardListener {
  /** No server can be connected to before somebody changes something. The client is destroyed. */
  onUnusable(): void;
  /** A watch has fired. */
  onEvent(event: ReplyReader): void;
}

/** Protects one client of the package from its known failures. */
export class ClientGuard implements ConnectorListener {
  readonly #manager: ConnectionManager;
  readonly #listener: ClientGuardListener;
  readonly #connector: Connector;
  /** Hands one reply to the package. */
  readonly #handleFrame: (frame: Buffer) => void;
  /** The requests that were sent and not answered yet. */
  readonly #unanswered = new Fifo<Packet>();
  /** The bytes that have arrived on this connection. */
  #frames = new Frames();
  #heardMs = -Infinity;
  /** Why the last connection was dropped. The package ignores it. */
  #dropError: unknown = undefined;
  /** The socket that gathers requests. */
  #gathering: Socket | undefined;
  #isDestroyed = false;

  /** Must be called before the client connects. */
  constructor(client: GuardedClient, options: ConnectorOptions, listener: ClientGuardListener) {
    const manager = this.#manager = client.connectionManager;
    this.#listener = listener;
    this.#connector = new Connector(options, this);
    manager.on("state", (state) => this.#onState(state));
    manager.pendingQueue = this.#unanswered;
    wrapXids(manager);
    this.#handleFrame = manager.onSocketData.bind(manager);
    // The package has no TLS, does not try another address of a host that accepted a connection, splits
    // IPv6 addresses at their first colon, and cannot be stopped while it pauses.
    manager.connect = () => {
      manager.setState(CONNECTING);
      void this.#connector.next();
    };
  }

  /**
   * Why no server could be connected to, or the connection was dropped; `undefined` while there is a
   * connection.
   */
  get connectError(): unknown {
    return this.#connector.error ?? this.#dropError ?? this.#connector.pendingError;
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
    this.#connector.connectNow();
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
    this.#connector.stop();
    // `close()` could wait for a connection forever. In this state the package makes no connection.
    this.#manager.setState(CLOSING);
    this.#clear();
    this.#manager.socket?.destroy();
  }

  onSocket(socket: Socket, readyEvent: "connect" | "secureConnect"): void {
    const manager = this.#manager;
    manager.socket = socket;
    socket.setNoDelay();
    // The package sends the request for the session here, and credentials after its answer.
    socket.on(readyEvent, () => manager.onSocketConnected());
    socket.on("data", (chunk) => this.#onSocketData(chunk));
    socket.on("drain", () => manager.onSocketDrain());
    socket.on("error", (error) => this.#dropError = error);
    socket.on("close", () => manager.onSocketClosed());
  }

  onUnusable(): void {
    this.destroy();
    this.#listener.onUnusable();
  }

  #onState(state: number): void {
    if (state === CONNECTED) {
      this.#connector.accepted();
      this.#dropError = undefined;
    }
    if (state === DISCONNECTED) this.#clear();
  }

  /** Clears the state of the lost connection, because the package would use it on the next one. */
  #clear(): void {
    // Half a reply is not the beginning of the next connection's first reply.
    this.#frames = new Frames();
    // The package would send queued requests after their deadlines, or never answer them.
    for (const packet of this.#manager.packetQueue.queue.splice(0)) {
      packet.callback({ code: CONNECTION_LOSS });
    }
  }

  /**
   * Hands the replies in a chunk to the package one by one. The package alone would handle each of them
   * inside the one before, and the stack has room for about 2,000; a chunk holds up to 3,276.
   */
  #onSocketData(chunk: Buffer): void {
    this.#heardMs = performance.now();
    const frames = this.#frames;
    const { socket } = this.#manager;
    try {
      frames.add(chunk);
      while (socket?.destroyed === false) {
        const frame = frames.next();
        if (frame === null) break;
        this.#handle(frame);
      }
    } catch (error) {
      // The rest of the bytes cannot be understood. An error that is thrown here, in the socket's event
      // handler, would end the process.
      this.#dropError = error;
      this.#connector.cannotRead(error);
      socket?.destroy();
    }
  }

  #handle(frame: Buffer): void {
    const packet = this.#unanswered.first;
    if (this.#manager.state === CONNECTING) return this.#handleFrame(frame);
    const xid = checkOrder(frame, packet);
    if (xid === EVENT_XID) return this.#listener.onEvent(new ReplyReader(frame));
    if (xid >= 0 && packet?.request.read !== undefined) {
      this.#unanswered.shift();
      return answer(this.#manager, frame, packet);
    }
    this.#handleOfPackage(frame, packet);
  }

  /** Answers a request that the package has made itself. */
  #handleOfPackage(frame: Buffer, packet: Packet | undefined): void {
    try {
      this.#handleFrame(frame);
    } catch (error) {
      const code = unknownCode(error);
      if (code === null || packet === undefined) throw error;
      // On an unknown error code, the package has forgotten the request.
      packet.callback({ code });
    }
  }
}
