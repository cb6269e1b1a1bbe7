/**
 * What is known of the servers' clocks.
 *
 * @module
 */
import { slotOf } from "./keys.ts";

/** The slot that stands for all where there is only one server. */
const ONLY_SLOT = 0;

/**
 * How far a server's clock is from ours: one server's, or that of each slot of a cluster, whose nodes
 * have clocks of their own. A slot that moves to another node is learned anew by the first answer.
 */
export class ServerClocks {
  /** Server time minus our monotonic time, never more than the truth, by slot. */
  readonly #offsetsMs = new Map<number, number>();
  readonly #cluster: boolean;

  constructor(cluster: boolean) {
    this.#cluster = cluster;
  }

  /** Server time minus our monotonic time for the server of a key; `null` before any answer. */
  offsetMs(key: string): number | null {
    return this.#offsetsMs.get(this.#slotOf(key)) ?? null;
  }

  /** The server of a key has told its time. */
  learn(key: string, offsetMs: number): void {
    this.#offsetsMs.set(this.#slotOf(key), offsetMs);
  }

  #slotOf(key: string): number {
    return this.#cluster ? slotOf(key) : ONLY_SLOT;
  }
}
