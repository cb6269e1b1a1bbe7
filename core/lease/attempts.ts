/**
 * How long one attempt of a renewal or a release may take, and the pause before the next one.
 *
 * @module
 */

function clamp(value: number, low: number, high: number): number {
  return Math.min(Math.max(value, low), high);
}

/** How long, in ms, one attempt may take before the next one is sent. */
export function attemptMs(ttlMs: number): number {
  return clamp(ttlMs / 6, 20, 2_000);
}

/** The pause in ms before a retry, shortened at random so that processes do not retry in step. */
export function retryDelayMs(ttlMs: number): number {
  return clamp(ttlMs / 20, 5, 500) * (0.5 + Math.random() / 2);
}
