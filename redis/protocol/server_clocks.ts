/**
 * How far the servers' clocks are from ours, as their answers tell.
 *
 * @module
 */
import { slotOf } from "./keys.ts";

/** Stands for all slots where there is only one server. */
const ONLY_SLOT = 0;

/** An answer that carries the server's time. Our times are monotonic. */
export interface TimedAnswer {
  /** When the server executed the request, in ms of its clock. */
  readonly serverMs: number;
  /** When the request was handed to the client. */
  readonly sentMs: number;
  /** When the answer was read. */
  readonly receivedMs: number;
  /** The connection of the request. */
  readonly epoch: number;
}

interface Offset {
  readonly offsetMs: number;
  readonly epoch: number;
}

/**
 * The clock offset of one server, or of each slot of a cluster, whose nodes have clocks of their own.
 *
 * An answer bounds the offset from both sides: the server executed the request after it was sent and
 * before its answer was read. The largest lower bound of a connection is kept, since an answer that is
 * read late has a small one. It is dropped if it is above the upper bound of a later answer: then the
 * server's clock was set back, or the slot has moved to another node.
 */
export class ServerClocks {
  readonly #offsets = new Map<number, Offset>();
  readonly #cluster: boolean;

  constructor(cluster: boolean) {
    this.#cluster = cluster;
  }

  /**
   * Server time minus our monotonic time in ms, for the server of a key; `null` before any answer.
   * Never more than the true offset, unless the server's clock was set back since the last answer.
   */
  offsetMs(key: string): number | null {
    return this.#offsets.get(this.#slotOf(key))?.offsetMs ?? null;
  }

  /** Learns from an answer of a key's server. */
  learn(key: string, { serverMs, sentMs, receivedMs, epoch }: TimedAnswer): void {
    const slot = this.#slotOf(key);
    const known = this.#offsets.get(slot);
    const lowestMs = serverMs - receivedMs;
    const highestMs = serverMs - sentMs;
    const keeps = known !== undefined && known.epoch === epoch && known.offsetMs > lowestMs &&
      known.offsetMs <= highestMs;
    if (!keeps) this.#offsets.set(slot, { offsetMs: lowestMs, epoch });
  }

  #slotOf(key: string): number {
    return this.#cluster ? slotOf(key) : ONLY_SLOT;
  }
}
