/**
 * How long this process got no processor.
 *
 * @module
 */

const TICK_MS = 10;

/** Measures until it is disposed. */
export interface Stalls extends Disposable {
  /** The longest time in ms in which no timer ran. */
  readonly longestMs: number;
}

/** Starts to measure: what a product's timer should have done in a stall, a test cannot demand. */
export function watchStalls(): Stalls {
  let [longestMs, lastMs] = [0, performance.now()];
  const look = () => {
    const nowMs = performance.now();
    longestMs = Math.max(longestMs, nowMs - lastMs);
    lastMs = nowMs;
  };
  const timer = setInterval(look, TICK_MS);
  return {
    get longestMs() {
      look();
      return longestMs;
    },
    [Symbol.dispose]: () => clearInterval(timer),
  };
}
