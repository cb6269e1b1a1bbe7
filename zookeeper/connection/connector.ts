/**
 * The attempts to connect: one server after the other, each with a time limit, and pauses between the
 * rounds. How the package uses a socket is in `client_guard.ts`.
 *
 * @module
 */
import { Attempt } from "./attempt.ts";
import type { Socket } from "./client_internals.ts";
import { ConnectError, type FailedAttempt } from "./connect_error.ts";
import type { ListServers } from "./connect_string.ts";
import { ProtocolError } from "./frames.ts";
import { lookUp, ServerRotation, type Target, type Unresolved } from "./server_rotation.ts";
import { openSocket } from "./server_socket.ts";
import type { TlsSettings } from "./tls.ts";
import type { LookUp, Warner } from "./transport.ts";

/** The options of a connector. */
export interface ConnectorOptions {
  readonly listServers: ListServers;
  /** Connections use TLS if this is set. */
  readonly tls: TlsSettings | undefined;
  /** How long in ms one server may take to accept the connection, the handshake and the session. */
  readonly attemptMs: number;
  /** Maximum pause in ms between two rounds in which no server accepted the session. */
  readonly maxPauseMs: number;
  /** Gets a warning about each server that is left out, and about each round without any. */
  readonly warnings: Warner;
  /** @default as the runtime does */
  readonly lookUp?: LookUp | undefined;
}

/** Uses the sockets. */
export interface ConnectorListener {
  /** An attempt has begun. Must destroy the socket if its connection is of no use. Must not throw. */
  onSocket(socket: Socket, readyEvent: "connect" | "secureConnect"): void;
  /** No server can be connected to before somebody changes something. There are no more attempts. */
  onUnusable(): void;
}

/** Maximum pause in ms after the first round in which no server accepted the session. */
const FIRST_PAUSE_MS = 200;
/** Minimum time in ms between two attempts to connect of which a call requested the second one. */
const MIN_PAUSE_MS = 500;

/**
 * Tries all addresses of all servers. Then it pauses. The pause doubles from round to round, and a random
 * part of it is left out, so that clients that lost their server together do not return together.
 */
export class Connector {
  readonly #options: ConnectorOptions;
  readonly #listener: ConnectorListener;
  readonly #rotation: ServerRotation;
  #round: ReturnType<ServerRotation["round"]>;
  #rounds = 0;
  /** The attempts of the round before, and of this one. */
  #failed: { before: FailedAttempt[]; now: FailedAttempt[] } = { before: [], now: [] };
  #attempt: Attempt | null = null;
  #attemptedMs = -Infinity;
  #pauseMs = 0;
  /** Ends a pause; `null` unless there is one. */
  #endPause: (() => void) | null = null;
  #pauseTimer: ReturnType<typeof setTimeout> | undefined;
  #hasConnected = false;
  #isStopped = false;

  /** Connects to nothing yet. */
  constructor(options: ConnectorOptions, listener: ConnectorListener) {
    this.#options = options;
    this.#listener = listener;
    const { listServers, attemptMs: lookupMs } = options;
    this.#rotation = new ServerRotation({
      listServers,
      lookUp: options.lookUp ?? lookUp,
      lookupMs,
    });
    this.#round = this.#rotation.round();
  }

  /** Why no server could be connected to since the last session was accepted; `undefined` if unknown. */
  get error(): ConnectError | undefined {
    const { before, now } = this.#failed;
    const attempts = now.length > 0 ? now : before;
    return attempts.length === 0 ? undefined : new ConnectError(attempts);
  }

  /** How the attempt under way will fail if nothing more arrives; `undefined` if there is none. */
  get pendingError(): ConnectError | undefined {
    const attempt = this.#attempt;
    return attempt === null ? undefined : new ConnectError([{ ...attempt.failure, isLate: true }]);
  }

  /** Begins the next attempt, after a pause if the round is over. The last one must have ended. */
  async next(): Promise<void> {
    while (!this.#isStopped) {
      const { value, done } = await this.#round.next();
      if (this.#isStopped) return;
      if (done) await this.#endRound();
      else if (this.#try(value)) return;
    }
  }

  /** The server has accepted the session: the next attempt begins a new round. */
  accepted(): void {
    this.#attempt?.end();
    this.#attempt = null;
    this.#hasConnected = true;
    this.#warn();
    this.#failed = { before: [], now: [] };
    this.#rounds = 0;
    this.#round = this.#rotation.round();
  }

  /** Notes that the server's answer cannot be read. The connection must be dropped. */
  cannotRead(error: unknown): void {
    if (this.#attempt === null) return;
    this.#attempt.error ??= error instanceof ProtocolError ? error : new ProtocolError(`${error}`);
  }

  /** Ends a pause between two attempts. */
  connectNow(): void {
    const sinceMs = performance.now() - this.#attemptedMs;
    if (this.#endPause === null || this.#pauseMs - sinceMs < MIN_PAUSE_MS) return;
    clearTimeout(this.#pauseTimer);
    // With many calls, this is still a pause.
    this.#pauseTimer = setTimeout(this.#endPause, Math.max(0, MIN_PAUSE_MS - sinceMs));
  }

  /** Makes no more attempts. */
  stop(): void {
    this.#isStopped = true;
    this.#attempt?.end();
    this.#rotation.stop();
    clearTimeout(this.#pauseTimer);
  }

  /** Returns whether there is a socket, whose close ends the attempt. */
  #try(target: Target | Unresolved): boolean {
    this.#attemptedMs = performance.now();
    if ("error" in target) {
      this.#fail({ ...target, phase: "resolve" });
      return false;
    }
    const { tls, attemptMs } = this.#options;
    try {
      const socket = openSocket(target, tls);
      const attempt = this.#attempt = new Attempt(socket, target, tls);
      // With several addresses, one that cannot be reached must not use up the time of the others.
      attempt.limit(target.address === undefined ? attemptMs : attemptMs / 4, attemptMs);
      socket.on("close", () => this.#onClosed(attempt));
      this.#listener.onSocket(socket, tls === undefined ? "connect" : "secureConnect");
      return true;
    } catch (error) {
      this.#fail({ ...target, phase: "connect", error });
      return false;
    }
  }

  #onClosed(attempt: Attempt): void {
    attempt.end();
    // Not so if the server has accepted the session.
    if (this.#attempt !== attempt) return;
    this.#attempt = null;
    const { address, error } = attempt.failure;
    const isForbidden = error instanceof Error && error.name === "NotCapable";
    if (isForbidden && address !== undefined) this.#rotation.connectByName();
    else this.#fail(attempt.failure);
  }

  #fail(failure: FailedAttempt): void {
    this.#failed.now.push(failure);
  }

  async #endRound(): Promise<void> {
    const { error } = this;
    if (error?.isSetup && !this.#hasConnected) {
      this.stop();
      return this.#listener.onUnusable();
    }
    this.#warn();
    this.#failed = { before: this.#failed.now, now: [] };
    await this.#pause();
    this.#round = this.#rotation.round();
  }

  async #pause(): Promise<void> {
    const longestMs = Math.min(FIRST_PAUSE_MS * 2 ** this.#rounds++, this.#options.maxPauseMs);
    this.#pauseMs = longestMs * (0.5 + Math.random() / 2);
    await new Promise<void>((resolve) => {
      this.#endPause = resolve;
      this.#pauseTimer = setTimeout(resolve, this.#pauseMs);
    });
    this.#endPause = null;
  }

  /** Warns of the attempts that fail until somebody changes something: no call reports them. */
  #warn(): void {
    for (const attempt of this.#failed.now) {
      const { isSetup, message } = new ConnectError([attempt]);
      if (isSetup) this.#options.warnings.warn(`ZooKeeperLock cannot use a server: ${message}`);
    }
  }
}
