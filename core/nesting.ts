/**
 * Finds calls that wait for their own caller: `request()` and `acquire()` of a name inside the callback of
 * a `request()` that holds it. Locks of other instances are not known here.
 *
 * @module
 */
import { AsyncLocalStorage } from "node:async_hooks";
import type { Lease } from "./distributed_lock.ts";
import type { Warnings } from "./warnings.ts";

/** A lease whose callback runs, and the one whose callback has requested it. */
interface Hold {
  readonly lease: Lease;
  readonly outer: Hold | undefined;
  isRunning: boolean;
}

/** The nested requests of one strategy instance. */
export class Nesting {
  /** Made at the first request: without it, a check costs nothing. */
  #holds: AsyncLocalStorage<Hold> | null = null;

  /** Runs the callback of a request. Calls in it, or in what it starts, know that it holds the lease. */
  async run<T>(lease: Lease, callback: (lease: Lease) => T | Promise<T>): Promise<T> {
    this.#holds ??= new AsyncLocalStorage();
    const hold: Hold = { lease, outer: this.#holds.getStore(), isRunning: true };
    try {
      return await this.#holds.run(hold, callback, lease);
    } finally {
      hold.isRunning = false;
    }
  }

  /**
   * Warns, once per name, if the caller is about to wait for itself.
   *
   * @param ownerId The owner id of the call, if the caller has chosen one: calls with the same one share a
   * lease.
   */
  check(name: string, ownerId: string | undefined, warnings: Warnings): void {
    for (let hold = this.#holds?.getStore(); hold !== undefined; hold = hold.outer) {
      const { lease, isRunning } = hold;
      if (lease.name !== name || !isRunning || lease.ownerId === ownerId) continue;
      if (lease.remainingMs === 0) continue; // lost or released: another call may get the lock
      warnings.warn(
        `Lock ${
          JSON.stringify(name)
        } was asked for inside the callback of request() that holds it, so the ` +
          "call waits until the callback ends: use the lease that the callback has, " +
          "as locks are not re-entrant",
      );
    }
  }
}
