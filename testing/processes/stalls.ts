/**
 * How long this process got no processor, and scenes that such a stall may spoil.
 *
 * @module
 */

const TICK_MS = 10;
const MAX_TRIES = 5;

/** What a scene tells: `"stalled"` if this machine was too late for it. */
export type Shown = "shown" | "stalled";

/** Plays a scene until it shows what it should: a machine does not stall each time. */
export async function untilShown(play: () => Promise<Shown>): Promise<void> {
  for (let tries = 1; await play() === "stalled"; tries++) {
    if (tries === MAX_TRIES) throw new Error(`The scene has shown nothing in ${tries} tries`);
  }
}

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
