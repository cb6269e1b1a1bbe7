/**
 * Waiting for a promise only as long as a signal allows.
 *
 * @module
 */

/** Resolves or rejects as `promise` does, or rejects with `signal.reason` if that aborts first. */
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
