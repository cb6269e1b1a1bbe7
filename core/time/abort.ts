/**
 * Waits that an abort signal ends. Waits that time ends are in `clock.ts`.
 *
 * @module
 */

/**
 * Resolves or rejects as `promise` does, or rejects with `signal.reason` if the signal aborts first. A
 * later rejection of `promise` is ignored.
 */
export async function abortable<T>(promise: PromiseLike<T>, signal: AbortSignal): Promise<T> {
  if (signal.aborted) {
    promise.then(undefined, () => {}); // otherwise its rejection would be unhandled
    throw signal.reason;
  }
  const { promise: aborted, reject } = Promise.withResolvers<never>();
  const abort = () => reject(signal.reason);
  signal.addEventListener("abort", abort);
  try {
    return await Promise.race([promise, aborted]);
  } finally {
    signal.removeEventListener("abort", abort);
  }
}
