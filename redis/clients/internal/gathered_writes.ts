/**
 * Writes the commands of one turn of the event loop together, for a client that writes each one alone.
 *
 * @module
 */
import process from "node:process";
import type { Writable } from "node:stream";

/** A client with a socket of its own. */
interface Connected {
  readonly stream?: Pick<Writable, "cork" | "uncork"> | undefined;
}

/** One write to the socket costs more than all else that a client does for a command. */
export class GatheredWrites {
  readonly #client: Connected;
  #isGathering = false;

  constructor(client: Connected) {
    this.#client = client;
  }

  /** Holds back what the client writes from now on, until all promises of this turn have run. */
  gather(): void {
    const { stream } = this.#client;
    if (this.#isGathering || stream === undefined) return;
    this.#isGathering = true;
    stream.cork();
    process.nextTick(() => {
      this.#isGathering = false;
      stream.uncork();
    });
  }
}
