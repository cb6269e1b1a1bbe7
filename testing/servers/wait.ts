/**
 * Waits for a time or a condition, within bounds.
 *
 * @module
 */

import { CONDITION_BOUND_MS } from "../time.ts";

const LEAST_POLL_MS = 5;
const MOST_POLL_MS = 25;
/** The part of the time so far that may pass until the next look at a condition. */
const LATENESS = 0.05;

/** Resolves after `ms`, or when the signal aborts. */
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

/**
 * Resolves once the condition holds.
 *
 * @param what The condition in words, for the error message.
 * @throws {Error} If it does not hold within `boundMs`.
 */
export async function waitUntil(
  what: string,
  condition: () => boolean | Promise<boolean>,
  boundMs: number = CONDITION_BOUND_MS,
): Promise<void> {
  const startMs = performance.now();
  while (!await condition()) {
    const waitedMs = performance.now() - startMs;
    if (waitedMs > boundMs) {
      throw new Error(`Timed out after ${boundMs} ms waiting until ${what}`);
    }
    // Each look may cost a server, and the other tests, more than the wait does.
    await pause(Math.min(Math.max(LATENESS * waitedMs, LEAST_POLL_MS), MOST_POLL_MS));
  }
}

/**
 * Runs work with a signal that aborts after `boundMs`. The work must reject when it aborts.
 *
 * @throws {Error} If the work took longer; its own error otherwise.
 */
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
