import { LockError } from "../core/contract/errors.ts";
import type { Ask } from "./protocol/wire.ts";

export interface OwnerCall {
  readonly mode: Ask["mode"];
  /** Whether it still asks for the lock or waits for it. */
  readonly isWanted: boolean;
  /** Set before the call begins, if its caller chose the owner id: makes it wait for the earlier calls under that. */
  ownerTurn: {
    /** Resolves when the earlier calls have their answers, and their clean-ups are over. */
    readonly earlier: Promise<unknown> | undefined;
    end(): void;
  } | null;
  /** Ends it in favour of a call that takes over what its owner id holds. */
  end(error: LockError): void;
  /** Resolves when each of its asks is answered or has failed, and its clean-up is over. */
  quiet(): Promise<void>;
}

/**
 * Calls under owner ids that their callers chose. Two owner values of one id on the server would take the lock from
 * one another, so of the calls of one `RedisLock` with the same lock and id only one may ask. Others are rejected,
 * except an attach, which ends that call. After its end the next one waits for its clean-up.
 */
export class OwnerCalls {
  /**
   * By lock and id: the calls in their order, each until it has its answers and its clean-up is over, and what
   * ends its wait for the others. No promise outlives a call here: in an outage the first one may have none of
   * its answers for long, while later ones come and go.
   */
  readonly #lines = new Map<string, Map<OwnerCall, () => void>>();

  /** Throws a `LockError` if another call of the lock and id asks. */
  check(name: string, ownerId: string): void {
    if (this.#asking(keyOf(name, ownerId)) !== undefined) {
      throw ownerError(name, "another call under it asks for the lock or waits for it");
    }
  }

  /**
   * Makes a call wait for the earlier ones of its lock and id. Throws if one of them asks. An attach ends that one
   * instead, but waits for another attach.
   */
  begin(name: string, ownerId: string, call: OwnerCall): void {
    const key = keyOf(name, ownerId);
    if (call.mode !== "attach") this.check(name, ownerId);
    const asking = this.#asking(key);
    if (asking !== undefined && asking.mode !== "attach") {
      asking.end(ownerError(name, "attach() was called under it"));
    }
    const line = this.#lines.get(key) ?? new Map<OwnerCall, () => void>();
    this.#lines.set(key, line);
    const turn = Promise.withResolvers<void>();
    const earlier = line.size === 0 ? undefined : turn.promise;
    line.set(call, turn.resolve);
    const end = async () => {
      await call.quiet();
      turn.resolve(); // it may have been aborted while it waited, and its budget times the wait
      line.delete(call);
      if (line.size === 0) this.#lines.delete(key);
      else for (const endWait of line.values()) return endWait();
    };
    call.ownerTurn = { earlier, end };
  }

  #asking(key: string): OwnerCall | undefined {
    for (const call of this.#lines.get(key)?.keys() ?? []) if (call.isWanted) return call;
    return undefined;
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
