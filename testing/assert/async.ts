/**
 * Stands in for the few functions of `@std/async` that the tests use, where JSR is out of reach.
 *
 * @module
 */

import { setTimeout as wait } from "node:timers/promises";

/** Options of `delay()`. */
export interface DelayOptions {
  /** Ends the delay early. */
  signal?: AbortSignal;
  /** Whether the delay keeps the process alive; true by default. */
  persistent?: boolean;
}

/** Options of `deadline()`. */
export interface DeadlineOptions {
  /** Ends the waiting early. */
  signal?: AbortSignal;
}

/** Resolves after some time, or rejects with the signal's reason. */
export async function delay(ms: number, options: DelayOptions = {}): Promise<void> {
  const { signal, persistent = true } = options;
  try {
    await wait(ms, undefined, { ref: persistent, ...signal && { signal } });
  } catch (error) {
    signal?.throwIfAborted();
    throw error;
  }
}

/** Settles as the promise does, or rejects with a `TimeoutError` when the time is over. */
export async function deadline<T>(
  p: Promise<T>,
  ms: number,
  options: DeadlineOptions = {},
): Promise<T> {
  const settled = new AbortController();
  const signals = [settled.signal, ...options.signal ? [options.signal] : []];
  const timeout = delay(ms, { signal: AbortSignal.any(signals) }).then(() => {
    throw new DOMException("Signal timed out.", "TimeoutError");
  });
  try {
    return await Promise.race([p, timeout]);
  } finally {
    settled.abort();
    await timeout.catch(() => {});
  }
}
