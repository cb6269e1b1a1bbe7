/**
 * Waiting for conditions in tests, with generous bounds.
 *
 * @module
 */

/** How long a test waits for what must happen soon. A busy machine must not fail it. */
export const SOON_MS = 20_000;

/** Waits until `condition` holds. */
export async function until(
  what: string,
  condition: () => boolean | Promise<boolean>,
  boundMs: number = SOON_MS,
): Promise<void> {
  const endMs = performance.now() + boundMs;
  while (!(await condition())) {
    if (performance.now() > endMs) throw new Error(`Waited ${boundMs} ms in vain: ${what}`);
    await sleep(5);
  }
}

/** Waits for a promise, but not for ever. */
export async function within<T>(
  what: string,
  promise: PromiseLike<T>,
  boundMs: number = SOON_MS,
): Promise<T> {
  let timer: ReturnType<typeof setTimeout> | undefined;
  const bound = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new Error(`Waited ${boundMs} ms in vain: ${what}`)), boundMs);
  });
  try {
    return await Promise.race([promise, bound]);
  } finally {
    clearTimeout(timer);
  }
}

/** Lets time pass. */
export function sleep(delayMs: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, delayMs));
}

/** Blocks the event loop. */
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

/** Whether a promise is still pending after all that is due now has run. */
export async function isPending(promise: Promise<unknown>, afterMs = 50): Promise<boolean> {
  const settled = promise.then(() => true, () => true);
  return !(await Promise.race([settled, sleep(afterMs).then(() => false)]));
}
