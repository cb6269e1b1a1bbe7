/**
 * The znodes of locks that nobody uses.
 *
 * @module
 */

/** How long in ms a lock is not used here before its znode is deleted. */
export const IDLE_PARENT_MS = 60_000;

/**
 * Remembers which locks' znodes may be empty. Deleting them at each release would cost a write each
 * time and another one to make them again, so they are deleted when they have been idle for a minute,
 * seen at a later release of any lock, and at disposal. ZooKeeper refuses to delete one that is in use.
 */
export class IdleParents {
  /** When each was left, in monotonic ms; the longest idle comes first. */
  readonly #leftMs = new Map<string, number>();

  /**
   * Notes that a lock was left here.
   *
   * @param parent The path of the lock's znode.
   * @param nowMs The time, in monotonic ms.
   * @returns The paths that have been idle for long, to be deleted; they are forgotten.
   */
  left(parent: string, nowMs: number): string[] {
    this.#leftMs.delete(parent);
    this.#leftMs.set(parent, nowMs);
    const idle: string[] = [];
    for (const [path, leftMs] of this.#leftMs) {
      if (nowMs - leftMs < IDLE_PARENT_MS) break;
      this.#leftMs.delete(path);
      idle.push(path);
    }
    return idle;
  }

  /** All paths, to be deleted; they are forgotten. */
  takeAll(): string[] {
    const all = [...this.#leftMs.keys()];
    this.#leftMs.clear();
    return all;
  }
}
