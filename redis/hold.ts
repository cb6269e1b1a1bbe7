/**
 * How a call keeps and leaves what it has on the server: renewal, release, clean-up. How it gets the
 * lock belongs to the acquisition.
 *
 * @module
 */
import { pause } from "../core/clock.ts";
import type { LeaseActions, ReleaseAnswer, RenewAnswer } from "../core/grant.ts";
import type { LeaseEngine } from "../core/lease_engine.ts";
import { RETRY_MS } from "../core/outage_budget.ts";
import { CleanUpState } from "./clean_up_state.ts";
import { type AskMode, type RedisCommands, TOMBSTONE_MS } from "./protocol/commands.ts";
import type { LockKeys } from "./protocol/keys.ts";
import { type Owner, ownerValue } from "./protocol/owner_value.ts";
import type { Waiters } from "./waiting/waiters.ts";

/** What all calls of one instance share. */
export interface CallContext {
  readonly engine: LeaseEngine;
  readonly commands: RedisCommands;
  readonly waiters: Waiters;
}

/** A lock, its owner, and the terms of the call. */
export interface HoldTerms {
  readonly keys: LockKeys;
  readonly owner: Owner;
  readonly ttlMs: number;
  readonly mode: AskMode;
  /** Whether the lease is not released at disposal. */
  readonly outlivesDisposal: boolean;
}

/** Gets the end of a lease. */
export interface HoldListener {
  /** The lease ends: it is released, or was lost and is cleaned up. May be called repeatedly. */
  onLeaseEnd(): void;
}

/** What one call has on the server, or may have: the lock, or a place in its queue. */
export class Hold implements LeaseActions {
  /** The whole owner value. */
  readonly value: string;
  /** What the server may know of the call. The acquisition reports its asks here. */
  readonly cleanUpState: CleanUpState;
  readonly #context: CallContext;
  readonly #terms: HoldTerms;
  readonly #listener: HoldListener | null;

  constructor(context: CallContext, terms: HoldTerms, listener: HoldListener | null) {
    this.#context = context;
    this.#terms = terms;
    this.#listener = listener;
    this.value = ownerValue(terms.owner);
    this.cleanUpState = new CleanUpState(context.commands);
  }

  /** Sends one renewal of the lease. */
  renew(ttlMs: number): Promise<RenewAnswer> {
    const { keys, owner } = this.#terms;
    return this.#context.commands.renew(keys, owner, ttlMs);
  }

  /** Sends one release. If the connection changes, "gone" may be the answer to a second copy of it. */
  async release(): Promise<ReleaseAnswer> {
    const { commands } = this.#context;
    this.#listener?.onLeaseEnd();
    const { epoch } = commands;
    const answer = await this.#leave(false);
    if (answer.state !== "gone" || commands.epoch === epoch) return answer;
    return { state: "unknown", cause: new Error("The connection changed during the release") };
  }

  /**
   * Ends a call that got no lease. If the server may know of the call, leaves in the background until
   * the server has answered, or everything has expired there.
   */
  cleanUp(): void {
    const { engine, waiters } = this.#context;
    const { ttlMs, mode, outlivesDisposal } = this.#terms;
    waiters.unregister(this.value);
    if (!this.cleanUpState.isNeeded) return;
    // An earlier call may hold the lock under the same owner id, which must not lose it here.
    const keepsLock = mode.kind === "attach" || outlivesDisposal;
    const untilMs = engine.clock.now() + ttlMs + TOMBSTONE_MS;
    engine.background.run(async () => {
      while (!engine.stopped.aborted && engine.clock.now() < untilMs) {
        const answer = await this.#leave(keepsLock).catch(() => null);
        if (answer !== null) return;
        await pause(engine.clock, RETRY_MS, engine.stopped);
      }
    });
  }

  /** Sends one leave. A grant message that comes from now on goes to the next waiter. */
  #leave(keepsLock: boolean): Promise<ReleaseAnswer> {
    const { commands, waiters } = this.#context;
    waiters.unregister(this.value);
    return commands.leave(this.#terms.keys, this.value, this.cleanUpState.tombstoneMs, keepsLock);
  }
}
