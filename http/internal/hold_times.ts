/**
 * How long requests have held their locks: the time after which a client that is refused should come back.
 *
 * @module
 */
import type { Lease } from "../../core/contract/distributed_lock.ts";

/** How many times are kept. */
const KEPT = 10;
/** The shortest time in ms that is told to a client: thousands must not come back within a few ms. */
const LEAST_MS = 100;

/** The last times of all requests of one part in this process, whatever their keys: its size is fixed. */
export class HoldTimes {
  readonly #grantedMs = new WeakMap<Lease, number>();
  /** The latest times, in ms, in no order. */
  readonly #keptMs: number[] = [];
  #oldest = 0;

  /** A request has got its lease. */
  granted(lease: Lease, nowMs: number): void {
    this.#grantedMs.set(lease, nowMs);
  }

  /** A request has released its lease, which was valid until then. */
  released(lease: Lease, nowMs: number): void {
    const grantedMs = this.#grantedMs.get(lease);
    if (grantedMs === undefined) return;
    this.#keptMs[this.#oldest] = nowMs - grantedMs;
    this.#oldest = (this.#oldest + 1) % KEPT;
  }

  /**
   * The longest of these times in ms; of ten the second longest, so that a single request that hung does not
   * count. `undefined` if there was none.
   */
  get usualMs(): number | undefined {
    const [longest, second] = this.#keptMs.toSorted((one, other) => other - one);
    const usualMs = this.#keptMs.length < KEPT ? longest : second;
    return usualMs === undefined ? undefined : Math.max(LEAST_MS, usualMs);
  }
}
