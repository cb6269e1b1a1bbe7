/**
 * The order in which the servers of an ensemble are tried, and the pauses between the attempts. Nothing is
 * connected here.
 *
 * @module
 */
import type { ServerAddress } from "./connect_string.ts";

/** Maximum pause in ms after the first round in which no server accepted the session. */
const FIRST_PAUSE_MS = 200;

/**
 * The servers, one after the other. There is a pause after each round in which no server accepted the
 * session. It doubles from round to round, and a random part of it is left out, so that clients that lost
 * their server together do not return together.
 */
export class ServerRotation {
  readonly #servers: readonly ServerAddress[];
  readonly #maxPauseMs: number;
  #nextIndex = 0;
  /** The number of attempts since a server has accepted the session. */
  #attempts = 0;
  /** The pause after the round, drawn once. */
  #pauseMs = 0;

  /** Begins with the first server. */
  constructor(servers: readonly ServerAddress[], maxPauseMs: number) {
    this.#servers = servers;
    this.#maxPauseMs = maxPauseMs;
  }

  /** The pause in ms before the next attempt. */
  get pauseMs(): number {
    return this.#pauseMs;
  }

  /** Returns the server to try now. */
  next(): ServerAddress {
    const { length } = this.#servers;
    const isRoundOver = ++this.#attempts % length === 0;
    this.#pauseMs = isRoundOver ? this.#pauseAfter(this.#attempts / length) : 0;
    return this.#servers[this.#nextIndex++ % length]!;
  }

  /** Begins a new round without a pause: a server has accepted the session. */
  accepted(): void {
    this.#attempts = 0;
    this.#pauseMs = 0;
  }

  #pauseAfter(rounds: number): number {
    const longestMs = Math.min(FIRST_PAUSE_MS * 2 ** (rounds - 1), this.#maxPauseMs);
    return longestMs * (0.5 + Math.random() / 2);
  }
}
