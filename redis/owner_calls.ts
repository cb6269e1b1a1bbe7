/**
 * Calls under owner ids that their callers chose. Two owner values of one id on the server would take the
 * lock from one another, so of the calls of one `RedisLock` with the same lock and id only one may ask.
 * Others are rejected, except an attach, which ends that call. After its end the next one waits for its
 * clean-up.
 *
 * @module
 */
import { LockError } from "../core/contract/errors.ts";
import type { Acquisition } from "./acquisition.ts";

interface OwnerCall {
  readonly call: Acquisition;
  /** Resolves when it and the calls before it have their answers, and their clean-ups are over. */
  readonly quiet: Promise<unknown>;
}

export class OwnerCalls {
  readonly #last = new Map<string, OwnerCall>();

  /** Throws a `LockError` if another call of the lock and id asks. */
  check(name: string, ownerId: string): void {
    if (this.#last.get(keyOf(name, ownerId))?.call.isWanted) {
      throw ownerError(name, "another call under it asks for the lock or waits for it");
    }
  }

  /**
   * Makes a call wait until the earlier calls of its lock and id are answered, and their clean-ups. Throws if
   * one of them asks. An attach ends it instead, but waits for another attach.
   */
  begin(name: string, ownerId: string, call: Acquisition): void {
    const key = keyOf(name, ownerId);
    const last = this.#last.get(key);
    if (call.mode !== "attach") this.check(name, ownerId);
    else if (last?.call.isWanted && last.call.mode !== "attach") {
      last.call.end(ownerError(name, "attach() was called under it"));
    }
    const { promise: ended, resolve: end } = Promise.withResolvers<void>();
    call.ownerTurn = { earlier: last?.quiet, end };
    const quiet = Promise.all([last?.quiet, ended]).then(() => call.quiet());
    this.#last.set(key, { call, quiet });
    quiet.then(() => this.#last.get(key)?.call === call && this.#last.delete(key));
  }
}

function keyOf(name: string, ownerId: string): string {
  return JSON.stringify([name, ownerId]);
}

function ownerError(name: string, why: string): LockError {
  return new LockError(
    `Cannot acquire lock ${JSON.stringify(name)} under this owner id: ${why} in this instance; ` +
      "make one call at a time for each owner id",
    name,
  );
}
