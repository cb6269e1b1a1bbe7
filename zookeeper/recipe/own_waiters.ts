/**
 * The calls of an instance that wait in one queue, in the order of their znodes. Sends nothing.
 *
 * @module
 */
import type { QueueEntry } from "./order.ts";

/** A call that waits. */
export interface OwnWaiter {
  /** The sequence number of its znode. */
  readonly sequence: number;
  /** It is the first waiter of its instance now. Must not throw. */
  onFirst(): void;
  /** It is the first waiter of its instance, and a holder of its instance leaves. Must not throw. */
  onHolderLeaving(holder: OwnHolder): void;
}

/** The entry of the call of an instance that was last granted the lock. */
export interface OwnHolder extends QueueEntry {
  /** Whether its delete is sent, or about to be: it does not hold the lock any more. */
  isLeaving: boolean;
  /** The first waiter, if that entry has certainly existed together with it; `null` until it leaves. */
  next: OwnWaiter | null;
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

  /** The first waiter, if any. */
  get first(): OwnWaiter | undefined {
    return this.#waiters[0];
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
