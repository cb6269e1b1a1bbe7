import type { Instant } from "../../core/time/clock.ts";
import { slotOf } from "./keys.ts";

const ONLY_SLOT = 0;

/** When an ask was sent, and on which connection. */
export interface AskSent extends Instant {
  readonly epoch: number;
}

/**
 * The clock offset of one server, or of each slot of a cluster, whose nodes have clocks of their own. An answer
 * bounds the offset from both sides: the server executed the request after it was sent and before its answer was
 * read. The largest lower bound of a connection is kept, since an answer that is read late has a small one. It is
 * dropped if it is above the upper bound of a later answer: then the server's clock was set back, or the slot has
 * moved.
 */
export class ServerClocks {
  readonly #offsets = new Map<number, { readonly offsetMs: number; readonly epoch: number }>();
  readonly #cluster: boolean;

  constructor(cluster: boolean) {
    this.#cluster = cluster;
  }

  /**
   * Server time minus our monotonic time in ms, for the server of a key; `null` before any answer.
   * Never more than the true offset, unless the server's clock was set back since the last answer.
   */
  offsetMs(key: string): number | null {
    return this.#offsets.get(this.#cluster ? slotOf(key) : ONLY_SLOT)?.offsetMs ?? null;
  }

  /** Learns from the answer of a key's server to a request that it executed at `serverMs`. */
  learn(
    key: string,
    serverMs: number,
    { nowMs: sentMs, epoch }: AskSent,
    receivedMs: number,
  ): void {
    const slot = this.#cluster ? slotOf(key) : ONLY_SLOT;
    const known = this.#offsets.get(slot);
    const lowestMs = serverMs - receivedMs;
    const highestMs = serverMs - sentMs;
    const keeps = known !== undefined && known.epoch === epoch && known.offsetMs > lowestMs &&
      known.offsetMs <= highestMs;
    if (!keeps) this.#offsets.set(slot, { offsetMs: lowestMs, epoch });
  }
}

/** Maps the server's clock to ours: the server time in an answer, and when its request was sent. */
export interface ClockMapping {
  readonly sent: AskSent;
  readonly serverMs: number;
}

/**
 * The earliest moment, in monotonic ms, at which the server can have made a grant: when the ask of the mapping was
 * sent, plus the server's time from its answer to the grant, less 1 % of that (if it is positive), as the two clocks
 * may run at different speeds; at the latest when the message was received. A claim that is counted from then ends
 * here before it ends on the server, so the waiter need not ask how much of it remains.
 *
 * @param mapping Of the last answer "queued" for this lock on this connection. Without one, the grant is not older
 * than the first ask of the waiter.
 */
export function claimStartMs(
  mapping: ClockMapping | null,
  firstSentMs: number,
  grantedServerMs: number,
  receivedMs: number,
): number {
  if (mapping === null) return Math.min(firstSentMs, receivedMs);
  const waitedMs = grantedServerMs - mapping.serverMs;
  return Math.min(mapping.sent.nowMs + waitedMs - Math.max(0, waitedMs) * 0.01, receivedMs);
}
