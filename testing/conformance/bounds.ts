/**
 * Waits for promises in tests, with generous bounds.
 *
 * @module
 */
import { CONDITION_BOUND_MS } from "../time.ts";

/**
 * Waits for a promise for a limited time.
 *
 * @param what The awaited event in words, for the error message.
 * @throws {Error} If the promise does not settle within `boundMs`.
 */
export async function within<T>(
  what: string,
  promise: PromiseLike<T>,
  boundMs: number = CONDITION_BOUND_MS,
): Promise<T> {
  let timer: ReturnType<typeof setTimeout> | undefined;
  const bound = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new Error(`Timed out after ${boundMs} ms: ${what}`)), boundMs);
  });
  try {
    return await Promise.race([promise, bound]);
  } finally {
    clearTimeout(timer);
  }
}

/** Blocks the event loop for this many ms. */
export function block(durationMs: number): void {
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, durationMs);
}

/** Resolves when a signal has aborted. */
export function aborted(signal: AbortSignal): Promise<void> {
  if (signal.aborted) return Promise.resolve();
  return new Promise((resolve) => {
    signal.addEventListener("abort", () => resolve(), { once: true });
  });
}
