/**
 * Remembers which locks a request holds, to find one that locks the same key twice: it would wait for
 * itself, and answer that somebody else holds the lock.
 *
 * @module
 */
import type { Lease } from "../../core/contract/distributed_lock.ts";
import { LockSetupError } from "../../core/contract/errors.ts";

/** A lease that a request got, and the lock, or the factory of locks, that it is from. */
export interface Hold {
  readonly lock: object;
  readonly lease: Lease;
}

/** The leases that a request got from all its locks; some may be over. */
export type Holds = Hold[];

const holdsByRequest = new WeakMap<object, Holds>();

/** Returns the leases of a request, which is known by an object that all its locks see. */
export function holdsOf(request: object): Holds {
  let holds = holdsByRequest.get(request);
  if (holds === undefined) holdsByRequest.set(request, holds = []);
  return holds;
}

/** One lock, seen from one request. */
export class RequestHolds {
  readonly #holds: Holds;
  readonly #lock: object;

  constructor(holds: Holds, lock: object) {
    this.#holds = holds;
    this.#lock = lock;
  }

  /**
   * Checks that the request may wait for a lock.
   *
   * @throws {LockSetupError} If the request itself holds the lock now.
   */
  throwIfHeld(name: string): void {
    const isHeld = this.#holds.some(({ lock, lease }) =>
      lock === this.#lock && lease.name === name && lease.remainingMs > 0
    );
    if (!isHeld) return;
    throw new LockSetupError(
      `Cannot acquire the lock ${
        JSON.stringify(name)
      } twice in one request: the request would wait ` +
        "for itself; acquire it once, in the outer handler or middleware",
      name,
    );
  }

  /** Remembers a lease. */
  add(lease: Lease): void {
    this.#holds.push({ lock: this.#lock, lease });
  }
}
