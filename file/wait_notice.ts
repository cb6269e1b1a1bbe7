/**
 * Tells one caller of `acquire()` what is known about its wait.
 *
 * @module
 */
import type { WaitInfo } from "../core/contract/distributed_lock.ts";

/** Calls `onWait` when the caller starts to wait, and when its position has changed. */
export class WaitNotice {
  readonly #onWait: ((info: WaitInfo) => void) | undefined;
  #position = 0;

  constructor(onWait: ((info: WaitInfo) => void) | undefined) {
    this.#onWait = onWait;
  }

  /**
   * Gives the position among the waiters of this instance.
   *
   * @param info The position and the number of waiters in the local queue.
   * @param isAwaited Whether another waiter of this instance waits for the file, not in the queue.
   */
  give({ position = 1, waiters = 1 }: WaitInfo, isAwaited = false): void {
    const ahead = isAwaited ? 1 : 0;
    if (position + ahead === this.#position) return;
    this.#position = position + ahead;
    this.#onWait?.({ position: this.#position, waiters: waiters + ahead });
  }
}
