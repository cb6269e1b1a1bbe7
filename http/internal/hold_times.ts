import type { Lease } from "../../core/contract/distributed_lock.ts";

/** How many times are kept. */
const KEPT = 10;
/** The shortest time in ms that is told to a client: thousands must not come back within a few ms. */
const LEAST_MS = 100;

/** How long the last requests of one middleware or handler held locks, whatever their names: for `Retry-After`. */
export class HoldTimes {
  readonly #grantedMs = new WeakMap<Lease, number>();
  /** The latest times, in ms, in no order. */
  readonly #keptMs: number[] = [];
  #oldest = 0;

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

  /** The longest of these times in ms; of ten the second longest, so that a request that hung does not count. */
  get usualMs(): number | undefined {
    const [longest, second] = this.#keptMs.toSorted((one, other) => other - one);
    const usualMs = this.#keptMs.length < KEPT ? longest : second;
    return usualMs === undefined ? undefined : Math.max(LEAST_MS, usualMs);
  }
}
