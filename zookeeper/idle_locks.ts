/**
 * Remembers which locks are unused, so that their znodes can be deleted. Sends nothing.
 *
 * @module
 */

/** How long in ms a lock must be unused here before its znode is deleted. */
export const IDLE_LOCK_MS = 60_000;

/**
 * The locks that this instance has used and released. Deleting a lock's znode at each release would
 * cost a write, and the next acquire another one to create it again. So the znode is deleted at a later
 * release of any lock, when it was unused for a minute, or at disposal. ZooKeeper refuses to delete the
 * znode of a lock that is in use.
 */
export class IdleLocks {
  /** When each lock was last released, in monotonic ms, by its path. The oldest release is first. */
  readonly #releasedMs = new Map<string, number>();

  /**
   * Records a release.
   *
   * @param lockPath The path of the lock's znode.
   * @param nowMs The time, in monotonic ms.
   * @returns The paths of the locks that are idle now. They are removed from the record.
   */
  recordRelease(lockPath: string, nowMs: number): string[] {
    this.#releasedMs.delete(lockPath);
    this.#releasedMs.set(lockPath, nowMs);
    const idle: string[] = [];
    for (const [path, releasedMs] of this.#releasedMs) {
      if (nowMs - releasedMs < IDLE_LOCK_MS) break;
      this.#releasedMs.delete(path);
      idle.push(path);
    }
    return idle;
  }

  /** Returns the paths of all recorded locks and removes them from the record. */
  removeAll(): string[] {
    const all = [...this.#releasedMs.keys()];
    this.#releasedMs.clear();
    return all;
  }
}
