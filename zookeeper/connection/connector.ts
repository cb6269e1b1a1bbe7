import { connect, isIP, type Socket } from "node:net";
import { connect as connectTls, type ConnectionOptions } from "node:tls";
import { ConnectError, type FailedAttempt, placeOf } from "./connect_error.ts";
import { askWho, diagnoseAnswer } from "./other_server.ts";
import { ServerRotation, type Target } from "./servers.ts";
import type { TransportOptions } from "./transport.ts";
import { ProtocolError } from "./wire.ts";

export interface ConnectorListener {
  /** An attempt has begun. Must destroy the socket if its connection is of no use. Must not throw. */
  onSocket(socket: Socket, readyEvent: "connect" | "secureConnect"): void;
  /** No server can be connected to before somebody changes something. There are no more attempts. */
  onUnusable(): void;
}

/** Maximum pause in ms after the first round in which no server accepted the session. */
const FIRST_PAUSE_MS = 200;
/** Minimum time in ms between two attempts to connect of which a call requested the second one. */
const MIN_PAUSE_MS = 600;
/** The time of an attempt passes in so many steps. */
const STEPS = 8;
/** After so many steps a silent server is asked who it is: late, as a busy one only needs more time. */
const ASK_AT_STEP = 6;
/** A connection that has lasted for so long, in ms, was of use, even if nothing was requested. */
const LASTED_MS = 2_000;

/**
 * Tries all addresses of all servers. Then it pauses. The pause doubles from round to round, and a random
 * part of it is left out, so that clients that lost their server together do not return together. A server
 * that accepts the session and then drops the connection has failed, too: a round ends only with a
 * connection that was of use, because a request was answered or because it has lasted.
 */
export class Connector {
  /** The attempt under way. Only the connector writes this and the next one. */
  attempt: Attempt | null = null;
  /** The attempt whose session was accepted, until its connection was of use. */
  unproven: Attempt | null = null;
  readonly #options: TransportOptions;
  readonly #listener: ConnectorListener;
  /** How long in ms one server may take to accept the connection, the handshake and the session. */
  readonly #attemptMs: number;
  readonly #rotation: ServerRotation;
  #round: ReturnType<ServerRotation["round"]>;
  #rounds = 0;
  /** The attempts of the round before, and of this one. */
  #failed: { before: FailedAttempt[]; now: FailedAttempt[] } = { before: [], now: [] };
  #attemptedMs = -Infinity;
  #pauseMs = 0;
  #endPause: (() => void) | null = null;
  #pauseTimer: ReturnType<typeof setTimeout> | undefined;
  #hasConnected = false;
  #isStopped = false;

  constructor(options: TransportOptions, listener: ConnectorListener) {
    this.#options = options;
    this.#listener = listener;
    this.#attemptMs = Math.min(Math.max(options.sessionTimeoutMs / 3, 200), 2_000);
    this.#rotation = new ServerRotation(options, this.#attemptMs);
    this.#round = this.#rotation.round();
  }

  /** Why no server could be connected to since the last session was accepted: the last attempt at each server. */
  get error(): ConnectError | undefined {
    const { before, now } = this.#failed;
    const attempts = [
      ...now,
      ...before.filter((old) => !now.some((each) => placeOf(each) === placeOf(old))),
    ];
    return attempts.length === 0 ? undefined : new ConnectError(attempts);
  }

  /** How the attempt under way will fail if nothing more arrives; `undefined` if there is none. */
  get pendingError(): ConnectError | undefined {
    const attempt = this.attempt;
    return attempt === null ? undefined : new ConnectError([{ ...attempt, isLate: true }]);
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

  accepted(): void {
    const attempt = this.unproven = this.attempt;
    this.attempt = null;
    attempt?.accept();
    this.#hasConnected = true;
    this.#warn();
    this.#failed = { before: [], now: [] };
  }

  /** The connection is of use: the next attempt begins a new round, without a pause. */
  proven(): void {
    this.unproven = null;
    this.#rounds = 0;
    this.#round = this.#rotation.round();
  }

  /** Notes that the server's answer cannot be read. The connection must be dropped. */
  cannotRead(error: unknown): void {
    const attempt = this.attempt ?? this.unproven;
    if (attempt === null) return;
    attempt.error ??= error instanceof ProtocolError ? error : new ProtocolError(`${error}`);
  }

  connectNow(): void {
    const sinceMs = performance.now() - this.#attemptedMs;
    if (this.#endPause === null || this.#pauseMs - sinceMs < MIN_PAUSE_MS) return;
    clearTimeout(this.#pauseTimer);
    // With many calls, this is still a pause.
    this.#pauseTimer = setTimeout(this.#endPause, Math.max(0, MIN_PAUSE_MS - sinceMs));
  }

  stop(): void {
    this.#isStopped = true;
    this.attempt?.end();
    this.#rotation.stop();
    clearTimeout(this.#pauseTimer);
    this.#endPause = null;
  }

  /** Returns whether there is a socket, whose close ends the attempt. */
  #try(target: Target | FailedAttempt): boolean {
    this.#attemptedMs = performance.now();
    if ("phase" in target) {
      this.#failed.now.push(target);
      return false;
    }
    const { tls } = this.#options;
    try {
      const socket = openSocket(target, tls);
      const attempt = this.attempt = new Attempt(socket, target, tls, this.#attemptMs);
      socket.on("close", () => this.#onClosed(attempt));
      const readyEvent = tls === undefined ? "connect" : "secureConnect";
      this.#listener.onSocket(socket, readyEvent);
      if (!this.#hasConnected && this.#rounds === 0) {
        socket.on(readyEvent, () => attempt.askLater(() => openSocket(target, tls), readyEvent));
      }
      return true;
    } catch (error) {
      this.#failed.now.push({ ...target, phase: "connect", error });
      return false;
    }
  }

  #onClosed(attempt: Attempt): void {
    attempt.end();
    if (this.unproven === attempt && performance.now() - attempt.acceptedMs >= LASTED_MS) {
      this.proven();
    }
    const isOver = this.attempt !== attempt && this.unproven !== attempt; // it was of use
    if (isOver || this.#isStopped) return;
    this.attempt = this.unproven = null;
    const { address, error } = attempt;
    const isForbidden = error instanceof Error && error.name === "NotCapable";
    if (isForbidden && address !== undefined) this.#rotation.connectByName();
    else this.#failed.now.push(attempt);
  }

  async #endRound(): Promise<void> {
    const { now } = this.#failed;
    if (!this.#hasConnected && new ConnectError(now).isSetup) {
      this.stop();
      return this.#listener.onUnusable();
    }
    this.#warn();
    this.#failed = { before: now, now: [] };
    await this.#pause();
    this.#round = this.#rotation.round();
  }

  async #pause(): Promise<void> {
    // So short that a lease outlives a short restart of the servers, even if they return in a pause. To
    // accept a session costs the servers a write, so there are fewer attempts if that was in vain.
    const leastMs = this.#failed.before.some(({ phase }) => phase === "accepted") ? 1_000 : 500;
    const maxPauseMs = Math.min(Math.max(this.#options.sessionTimeoutMs / 10, leastMs), 5_000);
    const longestMs = Math.min(FIRST_PAUSE_MS * 2 ** this.#rounds++, maxPauseMs);
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
      if (isSetup) this.#options.warn(`ZooKeeperLock cannot use a server: ${message}`);
    }
  }
}

/** One socket. Unless the server accepts the session on it, in time, the attempt has failed. */
class Attempt implements FailedAttempt {
  readonly server: Target["server"];
  readonly address: string | undefined;
  readonly tls: Required<FailedAttempt>["tls"];
  phase: FailedAttempt["phase"] = "connect";
  isLate = false;
  acceptedMs = NaN;
  /** The first error, which is the cause of all others. */
  error: unknown;
  answer: Uint8Array | undefined;
  readonly #socket: Socket;
  readonly #stepMs: number;
  #timer: ReturnType<typeof setTimeout> | undefined;
  #askTimer: ReturnType<typeof setTimeout> | undefined;
  #question: Socket | undefined;

  /** Takes a socket that is connecting, and closes it if the session is not accepted in `limitMs`. */
  constructor(
    socket: Socket,
    { server, address }: Target,
    tls: ConnectionOptions | undefined,
    limitMs: number,
  ) {
    this.server = server;
    this.address = address;
    this.tls = tls === undefined ? "none" : tls.cert === undefined ? "anonymous" : "certified";
    this.#socket = socket;
    this.#stepMs = limitMs / STEPS;
    const endMs = performance.now() + limitMs;
    // With several addresses, one that cannot be reached must not use up the time of the others.
    this.#limit(address === undefined ? limitMs : limitMs / 4);
    socket.on("connect", () => {
      this.phase = tls === undefined ? "session" : "handshake";
      this.end();
      this.#limit(Math.max(limitMs / 2, endMs - performance.now()));
    });
    socket.on("secureConnect", () => this.phase = "session");
    socket.on("error", (error) => this.error ??= error);
  }

  /** Ends the attempt after some time, of which a blocked event loop uses up one step at most. */
  #limit(leftMs: number): void {
    this.#timer = setTimeout(() => {
      if (leftMs > this.#stepMs) return this.#limit(leftMs - this.#stepMs);
      this.isLate = true;
      this.#socket.destroy();
    }, Math.min(leftMs, this.#stepMs));
  }

  /** Asks who listens there, on another socket, if the session is not accepted for most of the time. */
  askLater(open: () => Socket, readyEvent: "connect" | "secureConnect"): void {
    this.#askTimer = setTimeout(() => {
      try {
        this.#question = open();
      } catch {
        return; // the attempt reports its own error
      }
      askWho(this.#question, readyEvent, (bytes) => {
        this.answer = bytes;
        if (diagnoseAnswer(bytes)?.isSetup) this.#socket.destroy();
      });
    }, ASK_AT_STEP * this.#stepMs);
  }

  accept(): void {
    this.end();
    this.phase = "accepted";
    this.acceptedMs = performance.now();
  }

  end(): void {
    clearTimeout(this.#timer);
    clearTimeout(this.#askTimer);
    this.#question?.destroy();
  }
}

/** Returns a connecting socket. With TLS, it sends only the handshake until the certificate is accepted. */
function openSocket({ server, address }: Target, tls: ConnectionOptions | undefined): Socket {
  const place = { host: address ?? server.host, port: server.port };
  if (tls === undefined) return connect(place);
  // The certificate is for the host, whatever its address is. TLS sends no IP address as a name.
  const servername = isIP(server.host) === 0 ? { servername: server.host } : {};
  return connectTls({ ...servername, ...tls, ...place });
}
