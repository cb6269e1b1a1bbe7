/**
 * The calls of an instance that wait in one queue, in the order of their znodes. Sends nothing.
 *
 * @module
 */

/** A call that waits. */
export interface OwnWaiter {
  /** The sequence number of its znode. */
  readonly sequence: number;
  /** It is the first waiter of its instance now. Must not throw. */
  onFirst(): void;
}

/**
 * The waiters of one instance. None of them can be granted the lock before those ahead of it. So only the
 * first one has to know which znodes of other instances are ahead, and to watch one of them.
 */
export class OwnWaiters {
  readonly #waiters: OwnWaiter[] = [];

  /** Whether no call waits. */
  get isEmpty(): boolean {
    return this.#waiters.length === 0;
  }

  /** Whether a waiter is the first one. */
  isFirst(waiter: OwnWaiter): boolean {
    return this.#waiters[0] === waiter;
  }

  /** Adds a waiter. Usually it is the last one: only after a lost answer its znode may be older. */
  enter(waiter: OwnWaiter): void {
    let index = this.#waiters.length;
    while (index > 0 && this.#waiters[index - 1]!.sequence > waiter.sequence) index--;
    this.#waiters.splice(index, 0, waiter);
  }

  /** Removes a waiter, which was granted the lock or gave up. Notifies the next one if it is the first. */
  leave(waiter: OwnWaiter): void {
    const index = this.#waiters.indexOf(waiter);
    if (index === -1) return;
    this.#waiters.splice(index, 1);
    if (index === 0) this.#waiters[0]?.onFirst();
  }
}
