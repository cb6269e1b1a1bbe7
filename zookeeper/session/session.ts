/**
 * One ZooKeeper session, from its first connection to its end. The next session is opened in
 * `session_succession.ts`.
 *
 * @module
 */
import type { Clock } from "../../core/time/clock.ts";
import { ZooKeeperError } from "../connection/failures.ts";
import type {
  TransportListener,
  TransportState,
  ZooKeeperTransport,
} from "../connection/transport.ts";
import { Heartbeat } from "./heartbeat.ts";
import { SessionRequests } from "./session_requests.ts";
import { type SessionLeases, SessionValidity } from "./session_validity.ts";

/** The options of a session. */
export interface SessionOptions {
  readonly clock: Clock;
  /** The leases that are extended and lost together with the session. */
  readonly leases: SessionLeases;
  /** The path that all locks are below. */
  readonly rootPath: string;
  /** The znode that the heartbeat writes to. */
  readonly heartbeatPath: string;
}

/** Is notified of changes to the connection of a session. */
export interface SessionListener {
  /** The connection was lost or made again, or the session is over. Must not throw. */
  onSessionChange(): void;
}

/**
 * One session. It is over for good when its validity ends while leases are held, when the server says
 * that it has expired, when it had no connection for its whole timeout, when nothing arrived on the
 * connection for so long, or when it is closed. Then the transport is destroyed and, unless it was closed,
 * all leases are lost.
 */
export class Session implements TransportListener {
  /** The session timeout in ms that the server granted. */
  readonly timeoutMs: number;
  /** Until when the session is trusted to be alive. */
  readonly validity: SessionValidity;
  /** The requests of the session. */
  readonly requests: SessionRequests;
  readonly #transport: ZooKeeperTransport;
  readonly #options: SessionOptions;
  readonly #heartbeat: Heartbeat;
  readonly #listeners = new Set<SessionListener>();
  /** The read of {@linkcode Session.checkServer} that is not answered yet. */
  #checking: Promise<void> | null = null;
  /** Cancels the timer of the next check; `null` if there is none. */
  #cancelCheck: (() => void) | null = null;
  /** Settles with the next connection, or the end of the session; `null` if nobody waits for it. */
  #reconnection: PromiseWithResolvers<void> | null = null;
  /** Cancels the timer that ends the session without a connection, or without a sign of the server. */
  #cancelWatch: (() => void) | null = null;

  /** Takes over a transport that has just connected. */
  constructor(transport: ZooKeeperTransport, options: SessionOptions) {
    const { clock, leases, heartbeatPath: path } = options;
    const { timeoutMs } = transport;
    this.#transport = transport;
    this.#options = options;
    this.timeoutMs = timeoutMs;
    this.validity = new SessionValidity({ clock, leases, timeoutMs });
    const requests = this.requests = new SessionRequests(clock, transport, this.validity);
    this.#heartbeat = new Heartbeat({ clock, requests, path, timeoutMs });
    transport.listen(this);
    this.#watchServer();
  }

  /** Whether the session has ended for us. The server may still keep it for a while. */
  get isOver(): boolean {
    return this.validity.isOver;
  }

  /** Whether a server has accepted the session, on a connection that is not known to be lost. */
  get isConnected(): boolean {
    return !this.isOver && this.#transport.state === "connected";
  }

  /** The interval in ms of heartbeats while leases are held. */
  get heartbeatEveryMs(): number {
    return this.timeoutMs / 6;
  }

  /**
   * The interval in ms at which the server is checked while there are listeners. The client package sends a
   * ping when it has sent nothing for T/3, so these requests stand in for pings.
   */
  get checkEveryMs(): number {
    return this.timeoutMs * 0.3;
  }

  /**
   * Notifies a listener from now on. While there are listeners, the session checks at intervals that the
   * server answers: the client package does not notice a dead connection.
   */
  addListener(listener: SessionListener): void {
    this.#listeners.add(listener);
    if (this.#cancelCheck === null) this.#scheduleCheck();
  }

  /** Does not notify a listener any more. */
  removeListener(listener: SessionListener): void {
    this.#listeners.delete(listener);
  }

  /**
   * Resolves when there is a connection again.
   *
   * @throws {ZooKeeperError} If the session is over.
   */
  reconnected(): Promise<void> {
    if (this.isConnected) return Promise.resolve();
    if (this.isOver) return Promise.reject(sessionOver());
    this.#reconnection ??= Promise.withResolvers<void>();
    return this.#reconnection.promise;
  }

  /**
   * Creates the znode that the heartbeat writes to, unless that was done before. Sent together with the
   * first acquire, so that a missing right rejects that.
   *
   * @returns The answer that is awaited; `null` if the znode was created before.
   * @throws {ZooKeeperError} If the request fails.
   */
  prepareHeartbeat(): Promise<void> | null {
    return this.#heartbeat.prepare();
  }

  /**
   * Proves the session by a write, which also extends all leases. Callers share a pending heartbeat.
   *
   * @throws {ZooKeeperError} If the write fails.
   */
  sendHeartbeat(): Promise<void> {
    return this.#heartbeat.send();
  }

  /**
   * Checks by a read that the server answers, unless something has arrived from it recently. A refusal is
   * an answer. Callers share a pending read.
   *
   * @throws {ZooKeeperError} If there is no answer.
   */
  async checkServer(): Promise<void> {
    if (this.#transport.silentMs < this.checkEveryMs) return;
    this.#checking ??= this.#askServer().finally(() => this.#checking = null);
    await this.#checking;
  }

  async #askServer(): Promise<void> {
    try {
      await this.requests.get(this.#options.rootPath);
    } catch (error) {
      if (!(error instanceof ZooKeeperError) || !error.isAnswer) throw error;
    }
  }

  /**
   * Ends the session and all leases at once, without a request to the server.
   *
   * @param cause Why; the error of the connection unless given.
   */
  giveUp(cause: unknown = this.#transport.connectError): void {
    this.#lose(false, cause);
  }

  /** Closes the session at the server, within `timeoutMs`. Its leases must have ended. */
  async close(timeoutMs: number): Promise<void> {
    if (this.isOver) return;
    this.#end(false);
    await this.#transport.close(timeoutMs);
  }

  onStateChange(state: TransportState): void {
    if (this.isOver) return;
    if (state === "suspended") this.#watch(() => this.giveUp(), this.timeoutMs);
    else if (state !== "connected") this.#lose(state === "expired");
    // This server has other limits, and every deadline was computed with the old timeout.
    else if (this.#transport.timeoutMs !== this.timeoutMs) this.giveUp();
    else this.#onConnected();
    this.#notify();
  }

  #onConnected(): void {
    this.#watchServer();
    this.#reconnection?.resolve();
    this.#reconnection = null;
  }

  #lose(isExpired: boolean, cause?: unknown): void {
    if (this.isOver) return;
    this.#end(isExpired);
    // The client must never reconnect: other clients may have our locks by now.
    this.#transport.destroy();
    this.#options.leases.loseAll("session-expired", cause);
    this.#notify();
  }

  #end(isExpired: boolean): void {
    this.#cancelWatch?.();
    this.#cancelCheck?.();
    this.validity.end(isExpired);
    this.#reconnection?.reject(sessionOver());
    this.#reconnection?.promise.catch(() => {}); // Its waiters may all have given up.
    this.#reconnection = null;
  }

  #scheduleCheck(): void {
    if (this.isOver) return;
    const cancel = this.#options.clock.schedule(() => {
      this.#cancelCheck = null;
      if (this.#listeners.size === 0) return;
      // Without an answer the transport drops the connection, which the listeners notice.
      this.checkServer().catch(() => {});
      this.#scheduleCheck();
    }, this.checkEveryMs);
    cancel.hold?.(false);
    this.#cancelCheck = cancel;
  }

  /**
   * Ends the session when nothing has arrived for its timeout, though the client takes it for
   * connected. The answers to pings arrive three times as often.
   */
  #watchServer(): void {
    const isSilent = () => this.#transport.silentMs >= this.timeoutMs;
    this.#watch(() => {
      if (!isSilent()) return this.#watchServer();
      // One more turn of the event loop: if that was blocked, the socket may hold an answer.
      this.#watch(() => isSilent() ? this.giveUp() : this.#watchServer(), 0);
    }, this.timeoutMs - this.#transport.silentMs);
  }

  #watch(onTimer: () => void, delayMs: number): void {
    this.#cancelWatch?.();
    const cancel = this.#options.clock.schedule(onTimer, delayMs);
    cancel.hold?.(false);
    this.#cancelWatch = cancel;
  }

  #notify(): void {
    for (const listener of [...this.#listeners]) listener.onSessionChange();
  }
}

function sessionOver(): ZooKeeperError {
  return new ZooKeeperError("SESSION_OVER", "The session is over");
}
