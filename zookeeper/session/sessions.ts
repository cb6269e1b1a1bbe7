/**
 * The sessions of a strategy instance, one after the other: the first one is opened on first use, the
 * next one when the last is over.
 *
 * @module
 */
import { abortable, type Clock, settledWithin } from "../../core/time/clock.ts";
import type { OutageBudget } from "../../core/time/outage_budget.ts";
import { ZooKeeperError } from "../connection/failures.ts";
import type {
  OpenTransport,
  TransportOptions,
  TransportState,
  ZooKeeperTransport,
} from "../connection/transport.ts";
import { sessionZnodeName } from "../connection/znode_names.ts";
import { Session, type SessionOptions } from "./session.ts";

/** The options of {@linkcode Sessions}. */
export interface SessionsOptions extends Omit<SessionOptions, "heartbeatPath"> {
  readonly open: OpenTransport;
  readonly transport: TransportOptions;
  /** How long in ms it may take to open a session. */
  readonly connectTimeoutMs: number;
}

/** Opens sessions, at most one at a time. */
export class Sessions {
  readonly #options: SessionsOptions;
  readonly #clock: Clock;
  readonly #closed = new AbortController();
  #session: Session | null = null;
  #transport: ZooKeeperTransport | null = null;
  #opening: Promise<Session> | null = null;

  constructor(options: SessionsOptions) {
    this.#options = options;
    this.#clock = options.clock;
  }

  /** Returns the current session unless it is over. If its connection is lost, it connects at once. */
  live(): Session | null {
    this.#transport?.connectNow();
    return this.#session === null || this.#session.isOver ? null : this.#session;
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

  /** The same for a call, in the time that its budget has left. */
  async within(budget: OutageBudget): Promise<Session> {
    const session = await budget.settle(abortable(this.current(), budget.signal));
    budget.answered();
    return session;
  }

  /** Closes the current session, or the one that is being opened, within `timeoutMs`. For good. */
  async close(timeoutMs: number): Promise<void> {
    const endMs = this.#clock.now() + timeoutMs;
    // If we dropped the new session now, the server would keep it until its timeout.
    if (this.#opening !== null) await settledWithin(this.#clock, this.#opening, timeoutMs);
    this.#closed.abort(new ZooKeeperError("SESSION_OVER", "The session was closed"));
    await this.#session?.close(Math.max(0, endMs - this.#clock.now()));
  }

  async #open(): Promise<Session> {
    this.#closed.signal.throwIfAborted();
    const { open, transport: options, connectTimeoutMs, rootPath } = this.#options;
    const heartbeatPath = `${rootPath}/${sessionZnodeName(crypto.randomUUID())}`;
    const transport = this.#transport = open(options);
    const opened = Promise.withResolvers<Session>();
    const fail = (code: "TIMEOUT" | "AUTH_FAILED" | "SETUP", message: string) => {
      const { connectError: cause } = transport;
      opened.reject(new ZooKeeperError(code, message, cause === undefined ? {} : { cause }));
    };
    const giveUp = () => fail("TIMEOUT", "No ZooKeeper server accepted a session in time");
    const onStateChange = (state: TransportState) => {
      if (state === "connected") {
        // From here on the session listens to the transport.
        opened.resolve(new Session(transport, { ...this.#options, heartbeatPath }));
      } else if (state !== "refused") giveUp();
      // A server that refuses credentials was connected to.
      else if (transport.connectError === undefined) {
        fail("AUTH_FAILED", "ZooKeeper refused the credentials");
      } else fail("SETUP", "No ZooKeeper server can be connected to");
    };
    transport.setListener({ onStateChange });
    const cancel = this.#clock.schedule(giveUp, connectTimeoutMs);
    try {
      return this.#session = await abortable(opened.promise, this.#closed.signal);
    } catch (error) {
      transport.destroy();
      throw error;
    } finally {
      cancel();
    }
  }
}
