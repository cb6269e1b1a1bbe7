/**
 * One attempt to connect: its time limits, how far it has come, and why it fails.
 *
 * @module
 */
import type { Socket } from "./client_internals.ts";
import type { FailedAttempt, Phase } from "./connect_error.ts";
import type { Target } from "./server_rotation.ts";
import type { TlsSettings } from "./tls.ts";

/** One socket, until the server has accepted the session. */
export class Attempt {
  /** Why it fails. The first error is the cause of all others. */
  error: unknown = undefined;
  readonly #socket: Socket;
  readonly #target: Target;
  readonly #tls: NonNullable<FailedAttempt["tls"]>;
  #phase: Phase = "connect";
  #isLate = false;
  #timer: ReturnType<typeof setTimeout> | undefined;

  /** Takes a socket that is connecting. */
  constructor(socket: Socket, target: Target, tls: TlsSettings | undefined) {
    this.#socket = socket;
    this.#target = target;
    this.#tls = tls === undefined ? "none" : tls.cert === undefined ? "anonymous" : "certified";
    socket.on("connect", () => this.#phase = tls === undefined ? "session" : "handshake");
    socket.on("secureConnect", () => this.#phase = "session");
    socket.on("error", (error) => this.error ??= error);
  }

  /** The attempt, as one that failed. */
  get failure(): FailedAttempt {
    const { error } = this;
    const state = { phase: this.#phase, isLate: this.#isLate, tls: this.#tls };
    return { ...this.#target, ...state, ...error === undefined ? {} : { error } };
  }

  /** Limits the time until the connection is made, and that until the session is accepted. */
  limit(connectMs: number, totalMs: number): void {
    const expire = () => {
      this.#isLate = true;
      this.#socket.destroy();
    };
    const endMs = performance.now() + totalMs;
    this.#timer = setTimeout(expire, connectMs);
    this.#socket.on("connect", () => {
      clearTimeout(this.#timer);
      this.#timer = setTimeout(expire, endMs - performance.now());
    });
  }

  /** The attempt has succeeded or failed. */
  end(): void {
    clearTimeout(this.#timer);
  }
}
