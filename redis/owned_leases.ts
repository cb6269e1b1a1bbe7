/**
 * Leases under owner ids of the caller's making: the same id asked twice is one lease.
 *
 * @module
 */
import { abortable } from "../core/abort.ts";
import type { ManagedLease } from "../core/lease.ts";

/** A call under an owner id. */
interface Call {
  readonly lease: Promise<ManagedLease | null>;
  /** Resolves when the call was told that somebody else holds the lock. */
  readonly waits: Promise<void>;
  /** Whether it has ended, so that it waits no more. */
  isOver: boolean;
}

/** How a caller joins. */
export interface JoinOptions {
  readonly name: string;
  readonly ownerId: string;
  /** Whether to wait for a call that waits. */
  readonly wait: boolean;
  readonly signal: AbortSignal;
  /** Makes the call if there is none to join; tells when it has to wait, and when its lease has ended. */
  start(events: { onWait(): void; onEnd(): void }): Promise<ManagedLease | null>;
}

/** The calls and leases under callers' own ids in one instance. */
export class OwnedLeases {
  readonly #calls = new Map<string, Call>();

  /** Joins the call or the lease under this id, or starts a call. */
  async join({ name, ownerId, wait, signal, start }: JoinOptions): Promise<ManagedLease | null> {
    const key = keyOf(name, ownerId);
    for (;;) {
      const call = this.#calls.get(key);
      if (call === undefined) return await this.#start(key, start);
      const lease = call.lease.catch(() => null);
      const answer = wait || call.isOver ? lease : Promise.race([lease, call.waits]);
      const joined = await abortable(answer, signal);
      if (joined === undefined) return null; // that call still waits, and this one must not
      if (joined !== null && joined.remainingMs > 0) return joined;
      this.#forget(key, call);
    }
  }

  /** A call, or its lease, has ended; the id may have another one by now. */
  #forget(key: string, call: Call): void {
    if (this.#calls.get(key) === call) this.#calls.delete(key);
  }

  async #start(key: string, start: JoinOptions["start"]): Promise<ManagedLease | null> {
    const { promise: waits, resolve: onWait } = Promise.withResolvers<void>();
    const onEnd = () => this.#forget(key, call);
    const call: Call = { lease: start({ onWait, onEnd }), waits, isOver: false };
    this.#calls.set(key, call);
    let lease: ManagedLease | null = null;
    try {
      lease = await call.lease;
    } finally {
      call.isOver = true;
      if (lease === null) this.#forget(key, call);
    }
    return lease;
  }
}

function keyOf(name: string, ownerId: string): string {
  return JSON.stringify([name, ownerId]);
}
