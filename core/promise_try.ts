/**
 * `Promise.try()` for runtimes that lack it (Node 22).
 *
 * @module
 */

/** Calls at once. An exception becomes a rejection; a returned promise is passed on as it is. */
export function promiseTry<T>(call: () => T | PromiseLike<T>): Promise<T> {
  try {
    return Promise.resolve(call());
  } catch (error) {
    return Promise.reject(error);
  }
}
