/**
 * The session of a strategy instance: opened on first use, and anew when it is over.
 *
 * @module
 */
import { abortable } from "../../core/abort.ts";
import { type Clock, type Instant, settledWithin } from "../../core/clock.ts";
import { sessionZnodeName } from "../transport/znode_names.ts";
import { Session } from "./session.ts";
import type {
  OpenTransport,
  TransportOptions,
  TransportState,
  ZooKeeperTransport,
} from "../transport/transport.ts";
import { ZooKeeperError } from "../transport/errors.ts";

/** What sessions need. */
export interface SessionsOptions {
  readonly clock: Clock;
  readonly open: OpenTransport;
  readonly transport: Omit<TransportOptions, "onState">;
  /** How long opening a session may take in ms. */
  readonly connectTimeoutMs: number;
  /** The path that all locks are below. */
  readonly rootPath: string;
  /** The session was proven by a write that went out at `sent`, for `validMs` from then. */
  onProof(sent: Instant, validMs: number): void;
  /** The session can be believed no longer. */
  onOver(): void;
}

/** At most one session at a time. */
export class Sessions {
  readonly #options: SessionsOptions;
  readonly #closed = new AbortController();
  #session: Session | null = null;
  #opening: Promise<Session> | null = null;

  /** Opens nothing yet. */
  constructor(options: SessionsOptions) {
    this.#options = options;
  }

  /** The session that is open now. */
  get live(): Session | null {
    return this.#session === null || this.#session.isOver ? null : this.#session;
  }

  /**
   * The session, opened if need be.
   *
   * @returns A session that was open a moment ago.
   * @throws {ZooKeeperError} If it cannot be opened in time.
   */
  current(): Promise<Session> {
    const { live } = this;
    if (live !== null) return Promise.resolve(live);
    this.#opening ??= this.#open().finally(() => this.#opening = null);
    return this.#opening;
  }

  /** Ends the session within `timeoutMs`, also one that is being opened. */
  async close(timeoutMs: number): Promise<void> {
    const { clock } = this.#options;
    const endMs = clock.now() + timeoutMs;
    // Left alone now, it would stay at the server until its timeout.
    if (this.#opening !== null) await settledWithin(clock, this.#opening, timeoutMs);
    this.#closed.abort(new ZooKeeperError("SESSION_OVER", "The session was closed"));
    await this.live?.close(Math.max(0, endMs - clock.now()));
  }

  async #open(): Promise<Session> {
    this.#closed.signal.throwIfAborted();
    const { open, transport: options, clock, connectTimeoutMs } = this.#options;
    const { promise, resolve, reject } = Promise.withResolvers<Session>();
    let session: Session | null = null;
    const transport = open({
      ...options,
      onState: (state) => {
        if (session !== null) session.onState(state);
        else if (state === "connected") resolve(session = this.#adopt(transport));
        else reject(notOpened(state, transport));
      },
    });
    const cancel = clock.schedule(
      () => reject(notOpened("connecting", transport)),
      connectTimeoutMs,
    );
    try {
      return this.#session = await abortable(promise, this.#closed.signal);
    } catch (error) {
      transport.destroy();
      throw error;
    } finally {
      cancel();
    }
  }

  #adopt(transport: ZooKeeperTransport): Session {
    const { clock, rootPath, onProof, onOver } = this.#options;
    const beatPath = `${rootPath}/${sessionZnodeName(crypto.randomUUID())}`;
    return new Session(transport, { clock, rootPath, beatPath, onProof, onOver });
  }
}

function notOpened(state: TransportState, { connectError }: ZooKeeperTransport): ZooKeeperError {
  const options = connectError === undefined ? {} : { cause: connectError };
  return state === "refused"
    ? new ZooKeeperError("AUTH_FAILED", "ZooKeeper refused the credentials", options)
    : new ZooKeeperError("TIMEOUT", "No ZooKeeper server accepted a session in time", options);
}
