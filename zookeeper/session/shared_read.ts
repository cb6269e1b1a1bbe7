/**
 * A read that several callers share. Its content is given by its owner.
 *
 * @module
 */

/** At most one read is under way, and at most one is queued. */
export class SharedRead<T> {
  readonly #read: () => Promise<T>;
  #running: Promise<T> | null = null;
  #next: Promise<T> | null = null;

  /** Takes the function that sends the request. Nothing is sent yet. */
  constructor(read: () => Promise<T>) {
    this.#read = read;
  }

  /** Whether no read is under way or queued. */
  get isIdle(): boolean {
    return this.#running === null && this.#next === null;
  }

  /**
   * Reads. The request is sent after this call, and so shows what was requested before. If one is under
   * way already, the next one is sent after its answer, for all calls that wait by then.
   *
   * @throws {ZooKeeperError} If the request fails.
   */
  send(): Promise<T> {
    if (this.#next !== null) return this.#next;
    if (this.#running === null) return this.#start();
    const next = () => {
      this.#next = null;
      return this.#start();
    };
    this.#next = this.#running.then(next, next);
    return this.#next;
  }

  #start(): Promise<T> {
    const running = this.#read().finally(() => {
      if (this.#running === running) this.#running = null;
    });
    this.#running = running;
    return running;
  }
}
