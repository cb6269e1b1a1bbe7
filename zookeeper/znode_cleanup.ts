/**
 * Deletes znodes: our own when an acquisition ends or a lock is released, and those of unused locks. How
 * unused locks are found is in `idle_locks.ts`.
 *
 * @module
 */
import { pause, settledWithin } from "../core/time/clock.ts";
import type { ReleaseAnswer } from "../core/lease/grant.ts";
import type { LeaseEngine } from "../core/lease/lease_engine.ts";
import { RETRY_MS } from "../core/time/outage_budget.ts";
import { IdleLocks } from "./idle_locks.ts";
import type { OwnZnode } from "./recipe/own_znode.ts";
import type { SessionSuccession } from "./session/session_succession.ts";

/** Deletes the znodes of one strategy instance. */
export class ZnodeCleanup {
  readonly #engine: LeaseEngine;
  readonly #sessions: SessionSuccession;
  readonly #idleLocks = new IdleLocks();

  /** Deletes nothing yet. */
  constructor(engine: LeaseEngine, sessions: SessionSuccession) {
    this.#engine = engine;
    this.#sessions = sessions;
  }

  /**
   * Makes one attempt to delete a znode of ours. If its session is over, the delete is sent in the next
   * one: the server may keep the znode until the session timeout, and that would block the waiters.
   * Never rejects.
   */
  delete(znode: OwnZnode): Promise<ReleaseAnswer> {
    const { background, clock } = this.#engine;
    const idle = this.#idleLocks.recordRelease(znode.lockPath, clock.now());
    if (idle.length > 0) background.run(() => this.#deleteLocks(idle));
    return znode.delete(this.#sessions);
  }

  /** Tries in the background to delete a znode of ours, until it is gone or the engine is closed. */
  deleteInBackground(znode: OwnZnode): void {
    const { background, clock, stopped } = this.#engine;
    background.run(async () => {
      while (!stopped.aborted && (await this.delete(znode)).state === "unknown") {
        // A signal of its own: adding a listener to a signal takes longer, the more it has.
        await pause(clock, RETRY_MS, AbortSignal.any([stopped]));
      }
    });
  }

  /** Deletes the znodes of all locks that this instance does not use any more, within `timeoutMs`. */
  async deleteUnusedLocks(timeoutMs: number): Promise<void> {
    const deleted = this.#deleteLocks(this.#idleLocks.removeAll());
    await settledWithin(this.#engine.clock, deleted, timeoutMs);
  }

  /**
   * Deletes the znodes of locks. ZooKeeper refuses where other clients use the lock, which is
   * ignored.
   */
  async #deleteLocks(paths: readonly string[]): Promise<void> {
    if (paths.length === 0) return;
    const { requests } = await this.#sessions.current();
    await Promise.allSettled(paths.map((path) => requests.delete(path)));
  }
}
