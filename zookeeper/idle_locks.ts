/**
 * Records which locks are unused, so that their znodes can be deleted. Sends nothing: the deletes are in
 * `znode_cleanup.ts`.
 *
 * @module
 */

/** How long in ms this instance must not have used a lock before it deletes the lock's znode. */
export const IDLE_LOCK_MS = 60_000;

/**
 * The locks that this instance has used and released. Deleting a lock's znode at each release would
 * cost a write, and the next acquire would need another write to create it again. So the znode is
 * deleted once it was unused for a minute, at the next release of any lock, or else at disposal. A lock
 * that another client uses is safe: ZooKeeper refuses to delete a znode that has children.
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
