/**
 * What the queue of a lock with modes and limits must do, as simple as can be: the tests compare the
 * scripts with it.
 *
 * @module
 */

/** A request: `null` for exclusive, else how many may share the lock, 0 for any number. */
export type Limit = number | null;

export class ReferenceQueue {
  /** By the number of the request, in no order. */
  readonly holders: Map<number, Limit> = new Map();
  /** In the order of their asks. */
  readonly waiters: { readonly id: number; readonly limit: Limit }[] = [];

  /** A request asks. Returns whether it is granted the lock at once. One that does not wait is forgotten then. */
  ask(id: number, limit: Limit, waits: boolean): boolean {
    if (this.waiters.length === 0 && this.#allows(limit)) this.holders.set(id, limit);
    else if (waits) this.waiters.push({ id, limit });
    return this.holders.has(id);
  }

  /** A holder or a waiter leaves. Returns the waiters that are granted the lock. */
  leave(id: number): number[] {
    this.holders.delete(id);
    const place = this.waiters.findIndex((waiter) => waiter.id === id);
    if (place !== -1) this.waiters.splice(place, 1);
    return this.admit();
  }

  /** A thief takes the lock from all holders. */
  steal(id: number): void {
    this.holders.clear();
    this.holders.set(id, null);
  }

  /** Grants the lock to the waiters that come first, as far as it can. */
  admit(): number[] {
    const admitted: number[] = [];
    while (this.waiters.length > 0 && this.#allows(this.waiters[0]!.limit)) {
      const { id, limit } = this.waiters.shift()!;
      this.holders.set(id, limit);
      admitted.push(id);
    }
    return admitted;
  }

  #allows(limit: Limit): boolean {
    if (this.holders.size === 0) return true;
    if (limit === null || [...this.holders.values()].includes(null)) return false;
    return limit === 0 || this.holders.size < limit;
  }
}
