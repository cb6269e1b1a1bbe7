/**
 * Calls whose failures all come in one way.
 *
 * @module
 */

/** Calls at once; what is thrown is a rejection. `Promise.try()`, which Node 22 does not have. */
export function attempt<T>(call: () => T | PromiseLike<T>): Promise<T> {
  try {
    return Promise.resolve(call()); // a promise stays itself
  } catch (error) {
    return Promise.reject(error);
  }
}
