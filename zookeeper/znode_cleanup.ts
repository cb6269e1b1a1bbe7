/**
 * Deletes znodes: those of acquisitions that have ended, and those of unused locks.
 *
 * @module
 */
import { pause, settledWithin } from "../core/clock.ts";
import type { ReleaseAnswer } from "../core/grant.ts";
import type { LeaseEngine } from "../core/lease_engine.ts";
import { RETRY_MS } from "../core/outage_budget.ts";
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
   * Deletes a znode of ours; one attempt. If its session is over, the next one is used: the server may
   * keep the znode until its timeout, and other waiters need not wait for that.
   */
  delete(znode: OwnZnode): Promise<ReleaseAnswer> {
    const { background, clock } = this.#engine;
    const idle = this.#idleLocks.recordRelease(znode.lockPath, clock.now());
    if (idle.length > 0) background.run(() => this.#deleteLocks(idle));
    return znode.delete(this.#sessions);
  }

  /** Deletes a znode of ours in the background, until it is deleted or the engine is closed. */
  deleteInBackground(znode: OwnZnode): void {
    const { background, clock, stopped } = this.#engine;
    background.run(async () => {
      while (!stopped.aborted && (await this.delete(znode)).state === "unknown") {
        await pause(clock, RETRY_MS, stopped);
      }
    });
  }

  /** Deletes the znodes of all unused locks, within `timeoutMs`. */
  async deleteUnusedLocks(timeoutMs: number): Promise<void> {
    const deleted = this.#deleteLocks(this.#idleLocks.removeAll());
    await settledWithin(this.#engine.clock, deleted, timeoutMs);
  }

  /** ZooKeeper refuses to delete the znode of a lock that is in use. */
  async #deleteLocks(paths: readonly string[]): Promise<void> {
    if (paths.length === 0) return;
    const { requests } = await this.#sessions.current();
    await Promise.allSettled(paths.map((path) => requests.delete(path)));
  }
}
