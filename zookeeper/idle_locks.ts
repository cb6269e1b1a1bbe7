/**
 * Deletes the znodes of locks that this instance has used and released. A delete at each release would cost a write,
 * and the next acquire another one. So a znode is deleted once its lock was unused for a minute, at the next release
 * of any lock, or else at disposal. A lock that another client uses is safe: ZooKeeper refuses to delete a znode that
 * has children. A delete that an outage prevents is sent again when the lock was unused for another minute.
 *
 * @module
 */
import { settledWithin } from "../core/time/clock.ts";
import type { LeaseEngine } from "../core/lease/lease_engine.ts";
import { classifyFailure } from "./connection/failures.ts";
import type { Sessions } from "./session/sessions.ts";

/** How long in ms this instance must not have used a lock before it deletes the lock's znode. */
export const IDLE_LOCK_MS = 60_000;

/** How many deletes one release causes at most: many locks may have become idle in an outage or a pause. */
const MAX_DELETES = 100;

/** The locks that an instance has used, and does not hold or wait for. */
export class IdleLocks {
  readonly #engine: LeaseEngine;
  readonly #sessions: Sessions;
  /** When each lock was last released, in monotonic ms, by its path. The oldest release is first. */
  readonly #releasedMs = new Map<string, number>();

  constructor(engine: LeaseEngine, sessions: Sessions) {
    this.#engine = engine;
    this.#sessions = sessions;
  }

  /** Records a release, and deletes in the background the znodes of the locks that are idle now. */
  recordRelease(lockPath: string): void {
    const { clock, background } = this.#engine;
    const nowMs = clock.now();
    this.#releasedMs.delete(lockPath);
    this.#releasedMs.set(lockPath, nowMs);
    const idle: string[] = [];
    for (const [path, releasedMs] of this.#releasedMs) {
      if (nowMs - releasedMs < IDLE_LOCK_MS || idle.length === MAX_DELETES) break;
      this.#releasedMs.delete(path);
      idle.push(path);
    }
    if (idle.length > 0) background.run(() => this.#delete(idle));
  }

  async deleteAll(timeoutMs: number): Promise<void> {
    const all = [...this.#releasedMs.keys()];
    if (all.length === 0 || this.#sessions.isFailing) return;
    await settledWithin(this.#engine.clock, this.#delete(all), timeoutMs);
  }

  async #delete(paths: readonly string[]): Promise<void> {
    const { clock } = this.#engine;
    const session = this.#sessions.current();
    await Promise.all(paths.map(async (path) => {
      try {
        await (await session).delete(path);
      } catch (error) {
        const isAnswered = classifyFailure(error).endsOutage;
        if (!isAnswered && !this.#releasedMs.has(path)) this.#releasedMs.set(path, clock.now());
      }
    }));
  }
}
