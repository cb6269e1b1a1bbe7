/**
 * The wall clock in µs, for runtimes whose own one counts ms.
 *
 * @module
 */

/**
 * Adds the fraction of a ms from the monotonic clock, which counts from a moment that the runtime knows
 * in µs. After the wall clock was set, the result may be wrong by up to a ms.
 */
export class WallClock {
  /** The wall clock, in ms, when the monotonic one was 0. */
  #originMs: number = performance.timeOrigin;

  /** The time in µs since the epoch. */
  nowUs(): bigint {
    const earliestMs = Date.now();
    const ms = this.#originMs + performance.now();
    const latestMs = Date.now() + 0.999;
    const nowMs = Math.min(Math.max(ms, earliestMs), latestMs);
    this.#originMs += nowMs - ms;
    return BigInt(Math.floor(nowMs * 1_000));
  }
}
