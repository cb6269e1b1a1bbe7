/**
 * How far the servers' clocks are from ours, as their answers tell.
 *
 * @module
 */
import { slotOf } from "./keys.ts";

/** Stands for all slots where there is only one server. */
const ONLY_SLOT = 0;

/**
 * The clock offset of one server, or of each slot of a cluster, whose nodes have clocks of their own.
 * When a slot moves to another node, the next answer replaces its offset.
 */
export class ServerClocks {
  /** Server time minus our monotonic time in ms, by slot. Never more than the true offset. */
  readonly #offsetsMs = new Map<number, number>();
  readonly #cluster: boolean;

  constructor(cluster: boolean) {
    this.#cluster = cluster;
  }

  /** Server time minus our monotonic time in ms, for the server of a key; `null` before any answer. */
  offsetMs(key: string): number | null {
    return this.#offsetsMs.get(this.#slotOf(key)) ?? null;
  }

  /** Stores the offset in ms that an answer of a key's server shows. */
  learn(key: string, offsetMs: number): void {
    this.#offsetsMs.set(this.#slotOf(key), offsetMs);
  }

  #slotOf(key: string): number {
    return this.#cluster ? slotOf(key) : ONLY_SLOT;
  }
}
