/** `Promise.try()` for runtimes that lack it (Node 22). Calls at once; an exception becomes a rejection. */
export function promiseTry<T>(call: () => T | PromiseLike<T>): Promise<T> {
  try {
    return Promise.resolve(call());
  } catch (error) {
    return Promise.reject(error);
  }
}
