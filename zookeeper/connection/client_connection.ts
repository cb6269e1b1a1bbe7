/**
 * The life of one client of the package: its states, the settling of its requests, and its end. Which
 * requests there are is in `node_zookeeper_client.ts`, workarounds are in `client_guard.ts`.
 *
 * @module
 */
import { Buffer } from "node:buffer";
import { ClientGuard, type ClientGuardListener } from "./client_guard.ts";
import { CONNECTION_LOSS } from "./client_internals.ts";
import { loadClient } from "./client_module.ts";
import { type Client, toError } from "./client_package.ts";
import { ZooKeeperError } from "./errors.ts";
import type { ReplyReader } from "./reply_reader.ts";
import {
  RequestWindow,
  type RequestWindowListener,
  type WindowedRequest,
} from "./request_window.ts";
import {
  requestLimitMs,
  type TransportListener,
  type TransportOptions,
  type TransportState,
} from "./transport.ts";
import type { WireRequest } from "./wire_requests.ts";

/** Is notified by a connection. */
export interface ConnectionListener extends TransportListener {
  /** A watch has fired. */
  onEvent(event: ReplyReader): void;
}

/** The servers in the package's own list, which is not used: the guard chooses the servers. */
const UNUSED = "unused:1";

/** One client of the package. It starts to connect at once. */
export class ClientConnection implements RequestWindowListener, ClientGuardListener {
  /** The state of the connection and its session. */
  state: TransportState = "connecting";
  /** The number of connections so far. */
  epoch = 0;
  readonly #client: Client;
  readonly #guard: ClientGuard;
  readonly #options: TransportOptions;
  readonly #listener: ConnectionListener;
  readonly #window = new RequestWindow(this);
  #isDestroyed = false;
  #onConnected: (() => void) | undefined;
  #onClosed: (() => void) | undefined;

  /** Connects. The listener is notified of all states but the first one. */
  constructor(options: TransportOptions, listener: ConnectionListener) {
    this.#options = options;
    this.#listener = listener;
    const { sessionTimeoutMs, auth } = options;
    const { createClient } = loadClient();
    // `retries` must stay 0: the package would repeat even a create that was executed.
    this.#client = createClient(UNUSED, { sessionTimeout: sessionTimeoutMs, retries: 0 });
    const attemptMs = Math.min(Math.max(sessionTimeoutMs / 3, 200), 2_000);
    // So short that a lease outlives a short restart of the servers, even if they return in a pause.
    const maxPauseMs = Math.min(Math.max(sessionTimeoutMs / 10, 500), 5_000);
    this.#guard = new ClientGuard(this.#client, { ...options, attemptMs, maxPauseMs }, this);
    if (auth !== undefined) this.#client.addAuthInfo(auth.scheme, Buffer.from(auth.credentials));
    this.#listenToClient();
    this.#client.connect();
  }

  /** The session timeout in ms that the server granted; 0 before the first connection. */
  get timeoutMs(): number {
    return this.epoch === 0 ? 0 : this.#client.getSessionTimeout();
  }

  /** Why no server could be connected to, or the connection was dropped; `undefined` if unknown. */
  get connectError(): unknown {
    return this.#guard.connectError;
  }

  /** How long in ms nothing has arrived from a server; `Infinity` before the first connection. */
  get silentMs(): number {
    return this.#guard.silentMs;
  }

  get limitMs(): number {
    return requestLimitMs(this.#options, this.timeoutMs);
  }

  /** Ends a pause between two attempts to connect. */
  connectNow(): void {
    this.#guard.connectNow();
  }

  /**
   * Sends a request; without a connection, rejects.
   *
   * @param request The request.
   * @param isUrgent Whether to send it before others that wait until they can be sent.
   */
  request<T>(request: WireRequest<T>, isUrgent = false): Promise<T> {
    return new Promise<T>((resolve, reject) => {
      if (this.state !== "connected") throw this.#notConnected();
      const done = (error: { code: number } | null, answer?: unknown) => {
        // After a failure the answer is ignored. (After a create, the caller searches for its znode.)
        if (!this.#window.answered(pending)) return;
        if (error) reject(this.#errorOf(error));
        else resolve(answer as T);
      };
      const pending: WindowedRequest = {
        send: () => {
          this.#guard.gather();
          try {
            this.#client.connectionManager.queue(request, done);
          } catch (cause) {
            this.#window.answered(pending);
            const message = "The client package refused the request";
            reject(new ZooKeeperError("REFUSED", message, { cause }));
          }
        },
        fail: reject,
      };
      this.#window.add(pending, isUrgent);
    });
  }

  onOverdue(): void {
    const { limitMs } = this;
    // A long answer is arriving.
    if (this.#guard.isReceiving && this.#guard.silentMs < limitMs) return this.#window.postpone();
    this.#failAll(new ZooKeeperError("TIMEOUT", `ZooKeeper did not answer for ${limitMs} ms`));
    if (this.state === "connected") this.#guard.reconnect();
  }

  onUnusable(): void {
    this.#become("refused");
  }

  onEvent(event: ReplyReader): void {
    this.#listener.onEvent(event);
  }

  /** Closes the session at the server if it answers within `timeoutMs`, then frees all resources. */
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

  /** Frees all resources at once, without notifying the server. */
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
    this.#failAll(sessionClosed());
    this.#listener.onStateChange("closed");
  }

  #listenToClient(): void {
    this.#client.on("connected", () => {
      this.epoch++;
      this.#become("connected");
      this.#onConnected?.();
    });
    this.#client.on("disconnected", () => this.#onDisconnected());
    this.#client.on("expired", () => {
      this.#onClosed?.();
      this.#become("expired");
    });
    this.#client.on("authenticationFailed", () => {
      this.#failAll(new ZooKeeperError("AUTH_FAILED", "ZooKeeper refused the credentials"));
      this.#become("refused");
    });
  }

  #onDisconnected(): void {
    if (this.state === "closed") this.#onClosed?.();
    if (this.state !== "connected") return;
    this.state = "suspended";
    // The package does not answer a request on whose reply it failed.
    this.#failAll(this.#connectionLost());
    this.#listener.onStateChange("suspended");
  }

  #become(state: TransportState): void {
    if (this.state === "closed") return;
    this.state = state;
    this.#listener.onStateChange(state);
  }

  #failAll(error: ZooKeeperError): void {
    // A request that was not sent has no effect, so its caller need not find out whether it had.
    this.#window.failAll(error, error.isAmbiguous ? this.#notConnected() : error);
  }

  #errorOf(error: { code: number }): ZooKeeperError {
    return error.code === CONNECTION_LOSS ? this.#connectionLost() : toError(error);
  }

  #connectionLost(): ZooKeeperError {
    const message = "The connection to ZooKeeper was lost";
    return new ZooKeeperError("CONNECTION_LOSS", message, this.#whyLost());
  }

  #notConnected(): ZooKeeperError {
    if (this.state === "closed") return sessionClosed();
    if (this.state === "expired" || this.state === "refused") {
      return new ZooKeeperError("SESSION_OVER", `The session is over: ${this.state}`);
    }
    const message = "There is no connection to ZooKeeper";
    return new ZooKeeperError("NOT_CONNECTED", message, this.#whyLost());
  }

  #whyLost(): ErrorOptions {
    return this.connectError === undefined ? {} : { cause: this.connectError };
  }
}

function sessionClosed(): ZooKeeperError {
  return new ZooKeeperError("SESSION_OVER", "The session was closed");
}
