/**
 * Which acquisition the calls with an owner id share, and when the next call of that id may start. The call
 * itself is in `shared_acquisitions.ts`.
 *
 * @module
 */

/** One call, as far as the server may still work for it. */
interface OnServer {
  /** Whether the server may still execute a request of the call. */
  readonly isUnsettled: boolean;
  /** Resolves when it executes none any more. */
  settled(): Promise<void>;
}

/**
 * The acquisitions by lock and owner id, and the ids whose next call must wait. Two owner values of one id
 * on the server would take the lock from one another. If one of them were cut off, its clean-up would
 * release what the other one got.
 */
export class OwnerIds<T extends OnServer> {
  readonly #current = new Map<string, T>();
  readonly #busy = new Map<string, Promise<unknown>>();

  /** The acquisition that calls can join. */
  current(key: string): T | undefined {
    return this.#current.get(key);
  }

  /** Sets the acquisition that later calls join. */
  set(key: string, shared: T): void {
    this.#current.set(key, shared);
  }

  /** Lets no more calls join, and none start before the server executes nothing of this one any more. */
  remove(key: string, shared: T): void {
    if (this.#current.get(key) === shared) this.#current.delete(key); // else a later one has replaced it
    if (shared.isUnsettled) this.occupy(key, shared.settled());
  }

  /** Resolves when the next call may start; `undefined` if it may start now. */
  busy(key: string): Promise<unknown> | undefined {
    return this.#busy.get(key);
  }

  /** Lets no call start until the work has settled. Returns the work. */
  occupy<R>(key: string, work: Promise<R>): Promise<R> {
    const busy = Promise.allSettled([this.#busy.get(key), work]);
    this.#busy.set(key, busy);
    busy.then(() => this.#busy.get(key) === busy && this.#busy.delete(key));
    return work;
  }
}
