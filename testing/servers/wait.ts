/**
 * Waiting for conditions with bounds.
 *
 * @module
 */

const POLL_EVERY_MS = 5;

/** Resolves after some time, or when the signal aborts. */
export function pause(ms: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const done = () => {
      clearTimeout(timer);
      signal?.removeEventListener("abort", done);
      resolve();
    };
    const timer = setTimeout(done, signal?.aborted ? 0 : ms);
    signal?.addEventListener("abort", done);
  });
}

/** Resolves once the condition holds; rejects, naming what it waited for, after the bound. */
export async function waitUntil(
  what: string,
  condition: () => boolean | Promise<boolean>,
  boundMs = 30_000,
): Promise<void> {
  const deadline = performance.now() + boundMs;
  while (!await condition()) {
    if (performance.now() > deadline) {
      throw new Error(`Waited ${boundMs} ms in vain until ${what}`);
    }
    await pause(POLL_EVERY_MS);
  }
}

/** Does the work under a signal that aborts after the bound; the work must heed it. */
export async function bounded<T>(
  what: string,
  boundMs: number,
  work: (signal: AbortSignal) => Promise<T>,
): Promise<T> {
  const controller = new AbortController();
  const timer = setTimeout(() => controller.abort(), boundMs);
  try {
    return await work(controller.signal);
  } catch (cause) {
    if (!controller.signal.aborted) throw cause;
    throw new Error(`${what} took longer than ${boundMs} ms`, { cause });
  } finally {
    clearTimeout(timer);
  }
}
