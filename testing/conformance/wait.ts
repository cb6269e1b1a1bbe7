/**
 * Waiting for conditions in tests, with generous bounds.
 *
 * @module
 */
import { pause } from "../servers/wait.ts";

/** How long a test waits for what must happen soon. A busy machine must not fail it. */
const SOON_MS = 20_000;

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
  return !(await Promise.race([settled, pause(afterMs).then(() => false)]));
}
