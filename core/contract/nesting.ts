/**
 * Finds calls that wait for their own caller: `request()` and `acquire()` of a name inside the callback of
 * a `request()` that holds it. Locks of other instances are not known here.
 *
 * @module
 */
import { AsyncLocalStorage } from "node:async_hooks";
import type { AttachableAcquireOptions, Lease } from "./distributed_lock.ts";
import type { Warnings } from "./warnings.ts";

/** A lease whose callback runs, and the one whose callback has requested it. */
interface Hold {
  readonly lease: Lease;
  readonly outer: Hold | undefined;
  isRunning: boolean;
}

/** After warnings about so many names no more follow: a program may have a name per order. */
const MAX_NAMES = 100;

/** The nested requests of one strategy instance. */
export class Nesting {
  readonly #names = new Set<string>();
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

  /** Warns, once per name, if the caller is about to wait for itself. */
  check(name: string, { ownerId, waitMs }: AttachableAcquireOptions, warnings: Warnings): void {
    if (waitMs === 0) return;
    for (let hold = this.#holds?.getStore(); hold !== undefined; hold = hold.outer) {
      const { lease, isRunning } = hold;
      // A call under the same owner id takes the lease over, and does not wait.
      if (lease.name !== name || !isRunning || lease.ownerId === ownerId) continue;
      if (lease.remainingMs === 0) continue; // lost or released: another call may get the lock
      this.#warn(name, warnings);
    }
  }

  #warn(name: string, warnings: Warnings): void {
    if (this.#names.has(name) || this.#names.size >= MAX_NAMES) return;
    this.#names.add(name);
    const lock = JSON.stringify(name);
    warnings.warn(
      `Lock ${lock} was asked for inside the callback of request() that holds it, so the call waits ` +
        "until the callback ends: use the lease that the callback has, as locks are not re-entrant",
    );
  }
}
