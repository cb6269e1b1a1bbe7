/**
 * Counts the event listeners of a signal.
 *
 * @module
 */

/**
 * Returns how many listeners were added to the signal since this call, and not removed. Of
 * `AbortSignal.prototype`: to all signals.
 */
export function countListeners(signal: AbortSignal): () => number {
  let count = 0;
  const { addEventListener, removeEventListener } = signal;
  signal.addEventListener = function (...args: Parameters<typeof addEventListener>) {
    count++;
    addEventListener.apply(this, args);
  };
  signal.removeEventListener = function (...args: Parameters<typeof removeEventListener>) {
    count--;
    removeEventListener.apply(this, args);
  };
  return () => count;
}
