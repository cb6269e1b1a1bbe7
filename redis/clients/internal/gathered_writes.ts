/**
 * Writes commands of one turn of the event loop in batches, for a client that writes each one alone.
 *
 * @module
 */
import process from "node:process";
import type { Writable } from "node:stream";

/** A client with a socket of its own. */
interface Connected {
  readonly stream?: Pick<Writable, "cork" | "uncork"> | undefined;
}

/** So many commands at most are written together. */
const MAX_BATCH = 16;

/**
 * Gathers commands into batches, as one write to the socket costs more than all else that a client does for a
 * command. In each turn the first command leaves at once, so that a lone one is not delayed; then 2, 4, 8 and
 * 16 leave together, so that the server works on a batch while the client prepares the next one. With
 * one batch per turn each would wait for the other.
 */
export class GatheredWrites {
  readonly #client: Connected;
  /** The stream that holds back the current batch. */
  #corked: Connected["stream"] = undefined;
  /** The size of the current batch; 0 before the first command of a turn. */
  #size = 0;
  /** How many commands may still join the current batch. */
  #room = 0;

  constructor(client: Connected) {
    this.#client = client;
  }

  /** Puts the next command that the client writes into a batch. */
  gather(): void {
    if (this.#size === 0) {
      this.#size = 1;
      process.nextTick(this.#endTurn);
      return;
    }
    if (this.#room === 0) this.#startBatch();
    this.#room--;
  }

  #startBatch(): void {
    this.#corked?.uncork();
    this.#size = Math.min(2 * this.#size, MAX_BATCH);
    this.#room = this.#size;
    this.#corked = this.#client.stream;
    this.#corked?.cork();
  }

  /** All promises of the turn have run. */
  readonly #endTurn = (): void => {
    this.#corked?.uncork();
    this.#corked = undefined;
    this.#size = 0;
    this.#room = 0;
  };
}
