/**
 * Finds calls that wait for their own caller: `request()` and `acquire()` of a name inside the callback of
 * a `request()` that holds it. Locks of other instances are not known here.
 *
 * @module
 */
import { AsyncLocalStorage } from "node:async_hooks";
import { modeOf } from "./call_options.ts";
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

const WAIT = "until the callback ends";
const SHARED_WAIT = `${WAIT} if an exclusive call waits in between`;

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

  /** Warns, once per name, if the caller is about to wait for itself. The options may be unchecked. */
  check(name: string, options: AttachableAcquireOptions | null, warnings: Warnings): void {
    const { ownerId, waitMs } = options ?? {};
    if (waitMs === 0) return;
    for (let hold = this.#holds?.getStore(); hold !== undefined; hold = hold.outer) {
      const { lease, isRunning } = hold;
      // A call under the same owner id takes the lease over, and does not wait.
      if (lease.name !== name || !isRunning || lease.ownerId === ownerId) continue;
      if (lease.remainingMs === 0) continue; // lost or released: another call may get the lock
      const isShared = lease.mode === "shared" && modeOf(options ?? {}) === "shared";
      this.#warn(name, isShared ? SHARED_WAIT : WAIT, warnings);
    }
  }

  #warn(name: string, when: string, warnings: Warnings): void {
    if (this.#names.has(name) || this.#names.size >= MAX_NAMES) return;
    this.#names.add(name);
    const lock = JSON.stringify(name);
    warnings.warn(
      `Lock ${lock} was asked for inside the callback of request() that holds it, so the call waits ` +
        `${when}: use the lease that the callback has, as locks are not re-entrant`,
    );
  }
}
