/**
 * The sessions of a strategy instance, one after the other: the first one is opened on first use, the
 * next one when the last is over.
 *
 * @module
 */
import { abortable, type Clock, settledWithin } from "../../core/time/clock.ts";
import { ZooKeeperError } from "../connection/failures.ts";
import type {
  OpenTransport,
  TransportListener,
  TransportOptions,
  TransportState,
  ZooKeeperTransport,
} from "../connection/transport.ts";
import { sessionZnodeName } from "../connection/znode_names.ts";
import { Session, type SessionOptions } from "./session.ts";
import type { SessionLeases } from "./session_validity.ts";

/** The options of a succession of sessions. */
export interface SessionSuccessionOptions {
  readonly clock: Clock;
  /** The leases that are extended and lost together with a session. */
  readonly leases: SessionLeases;
  readonly open: OpenTransport;
  readonly transport: TransportOptions;
  /** How long in ms it may take to open a session. */
  readonly connectTimeoutMs: number;
  /** The path that all locks are below. */
  readonly rootPath: string;
}

/** Opens sessions, at most one at a time. */
export class SessionSuccession {
  readonly #options: SessionSuccessionOptions;
  readonly #closed = new AbortController();
  #session: Session | null = null;
  #transport: ZooKeeperTransport | null = null;
  #opening: Promise<Session> | null = null;

  /** Opens nothing yet. */
  constructor(options: SessionSuccessionOptions) {
    this.#options = options;
  }

  /**
   * Returns the current session, or opens the next one. If its connection is lost, it connects at once.
   *
   * @returns A session. It may end at any time.
   * @throws {ZooKeeperError} If no session is opened within `connectTimeoutMs`, the credentials are
   * refused, no server can be connected to as this process is set up, or this was closed.
   */
  current(): Promise<Session> {
    const live = this.live();
    if (live !== null) return Promise.resolve(live);
    this.#opening ??= this.#open().finally(() => this.#opening = null);
    return this.#opening;
  }

  /** Returns the current session unless it is over. If its connection is lost, it connects at once. */
  live(): Session | null {
    this.#transport?.connectNow();
    return this.#live;
  }

  /** Closes the current session, or the one that is being opened, within `timeoutMs`. For good. */
  async close(timeoutMs: number): Promise<void> {
    const { clock } = this.#options;
    const endMs = clock.now() + timeoutMs;
    // If we dropped the new session now, the server would keep it until its timeout.
    if (this.#opening !== null) await settledWithin(clock, this.#opening, timeoutMs);
    this.#closed.abort(new ZooKeeperError("SESSION_OVER", "The session was closed"));
    await this.#live?.close(Math.max(0, endMs - clock.now()));
  }

  get #live(): Session | null {
    return this.#session === null || this.#session.isOver ? null : this.#session;
  }

  async #open(): Promise<Session> {
    this.#closed.signal.throwIfAborted();
    const { open, transport: options, clock, connectTimeoutMs, leases, rootPath } = this.#options;
    const heartbeatPath = `${rootPath}/${sessionZnodeName(crypto.randomUUID())}`;
    const transport = this.#transport = open(options);
    const opening = new SessionOpening(transport, { clock, leases, rootPath, heartbeatPath });
    const cancel = clock.schedule(() => opening.giveUp(), connectTimeoutMs);
    try {
      return this.#session = await abortable(opening.session, this.#closed.signal);
    } catch (error) {
      transport.destroy();
      throw error;
    } finally {
      cancel();
    }
  }
}

/** Waits for the first connection of a transport, and makes a session of it. */
class SessionOpening implements TransportListener {
  /** The session. Rejects with a {@linkcode ZooKeeperError} if the servers refuse it. */
  readonly session: Promise<Session>;
  readonly #transport: ZooKeeperTransport;
  readonly #options: SessionOptions;
  readonly #settle: PromiseWithResolvers<Session> = Promise.withResolvers<Session>();

  constructor(transport: ZooKeeperTransport, options: SessionOptions) {
    this.#transport = transport;
    this.#options = options;
    this.session = this.#settle.promise;
    transport.listen(this);
  }

  /** Rejects: no server has accepted the session in time. */
  giveUp(): void {
    this.#fail("TIMEOUT", "No ZooKeeper server accepted a session in time");
  }

  onStateChange(state: TransportState): void {
    // From here on the session listens to the transport.
    if (state === "connected") this.#settle.resolve(new Session(this.#transport, this.#options));
    else if (state === "refused") this.#onRefused();
    else this.giveUp();
  }

  #onRefused(): void {
    // A server that refuses credentials was connected to.
    if (this.#transport.connectError === undefined) {
      this.#fail("AUTH_FAILED", "ZooKeeper refused the credentials");
    } else this.#fail("SETUP", "No ZooKeeper server can be connected to");
  }

  #fail(code: "TIMEOUT" | "AUTH_FAILED" | "SETUP", message: string): void {
    const { connectError: cause } = this.#transport;
    this.#settle.reject(new ZooKeeperError(code, message, cause === undefined ? {} : { cause }));
  }
}
