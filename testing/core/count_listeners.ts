/**
 * Counts the event listeners of a signal.
 *
 * @module
 */

/** Returns how many listeners were added to the signal since this call, and not removed. */
export function countListeners(signal: AbortSignal): () => number {
  let count = 0;
  const { addEventListener, removeEventListener } = signal;
  signal.addEventListener = (...args: Parameters<typeof addEventListener>) => {
    count++;
    addEventListener.apply(signal, args);
  };
  signal.removeEventListener = (...args: Parameters<typeof removeEventListener>) => {
    count--;
    removeEventListener.apply(signal, args);
  };
  return () => count;
}
