/**
 * Renewal, release and clean-up of one call. How the call gets the lock is in `acquisition.ts`.
 *
 * @module
 */
import type { AbortWatch } from "./abort_watch.ts";
import { abortable, type Instant, pause } from "../core/time/clock.ts";
import type { LeaseActions, ReleaseAnswer, RenewAnswer } from "../core/lease/grant.ts";
import type { LeaseEngine } from "../core/lease/lease_engine.ts";
import { RETRY_MS } from "../core/time/outage_budget.ts";
import { CleanUpState } from "./clean_up_state.ts";
import type { HeldLeases } from "./waiting/held_leases.ts";
import { type AskListener, type AskMode, type AskResult, TOMBSTONE_MS } from "./protocol/ask.ts";
import type { RedisCommands } from "./protocol/commands.ts";
import type { LockKeys } from "./protocol/keys.ts";
import { type Owner, ownerValue } from "./protocol/owner_value.ts";
import { classifyFailure } from "./protocol/failures.ts";
import type { LeaveAnswer } from "./protocol/replies.ts";
import type { Waiters } from "./waiting/waiters.ts";

/** Longest pause in ms before a clean-up is tried again. The first pause is {@linkcode RETRY_MS}. */
const MAX_RETRY_MS = 1_000;

/** The objects that all calls of one `RedisLock` share. */
export interface CallContext {
  readonly engine: LeaseEngine;
  readonly commands: RedisCommands;
  readonly waiters: Waiters;
  readonly held: HeldLeases;
  /** The signals of the callers. */
  readonly aborts: AbortWatch;
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

/** Is notified of the end of a lease. */
export interface HoldListener {
  /** The lease ends: it is being released, or cleaned up after a loss. May be called repeatedly. */
  onLeaseEnd(): void;
}

/** The lock, or the place in its queue, that one call has or may have on the server. */
export class Hold implements LeaseActions, AskListener {
  /** The whole owner value. */
  readonly value: string;
  /** Tracks whether a clean-up is needed. */
  readonly cleanUpState: CleanUpState;
  /** When the first ask was sent; `null` before that. */
  firstSent: Instant | null = null;
  readonly #context: CallContext;
  readonly #terms: HoldTerms;
  readonly #listener: HoldListener | null;
  #keepsLock = false;
  /** Whether a release was sent before: then "gone" may be its own work, and the engine knows that. */
  #isReleaseRepeated = false;
  /** The clean-up that is under way. */
  #cleaning: Promise<void> | null = null;

  constructor(context: CallContext, terms: HoldTerms, listener: HoldListener | null) {
    this.#context = context;
    this.#terms = terms;
    this.#listener = listener;
    this.value = ownerValue(terms.owner);
    this.cleanUpState = new CleanUpState(context.commands);
  }

  /** Implements {@linkcode AskListener}. */
  onHandOver(isDated: boolean, sent: Instant): void {
    this.firstSent ??= sent;
    this.cleanUpState.onHandOver(isDated);
  }

  /** Implements {@linkcode AskListener}. A grant ends an earlier lease, even if its call has ended. */
  onAnswer(result: AskResult): void {
    this.cleanUpState.onAnswer(result);
    const { answer } = result;
    if (answer.state !== "granted") return;
    this.#context.held.onGrant(this.#terms.keys.lock, this.value, answer.fencingToken);
  }

  /** Implements {@linkcode AskListener}. */
  onFailure(error: unknown, epoch: number): void {
    this.cleanUpState.onFailure(error, epoch);
  }

  /**
   * From now on a clean-up, after a loss or without a lease, releases no lock: another call of the owner id
   * may hold it.
   */
  keepLock(): void {
    this.#keepsLock = true;
  }

  /** Whether Redis may still execute an ask or a clean-up of this call, as far as replies tell. */
  get isUnsettled(): boolean {
    return this.cleanUpState.isUnsettled || this.#cleaning !== null;
  }

  /** Resolves when Redis executes neither an ask nor a clean-up of this call any more. It sends no more asks. */
  async settled(): Promise<void> {
    await this.cleanUpState.settled();
    await this.#cleaning;
  }

  /** Sends one renewal of the lease. */
  renew(ttlMs: number): Promise<RenewAnswer> {
    const { keys, owner } = this.#terms;
    return this.#context.commands.renew(keys, owner, ttlMs);
  }

  /**
   * Sends one release. If the first one is answered "gone", but an earlier copy of it may have released
   * the lock, that is reported as unknown: the client may have sent it twice.
   */
  async release(isLost: boolean): Promise<ReleaseAnswer> {
    const { commands, engine: { clock } } = this.#context;
    this.#listener?.onLeaseEnd();
    const { epoch } = commands;
    const isRepeated = this.#isReleaseRepeated;
    this.#isReleaseRepeated = true;
    const { tombstoneMs } = this.cleanUpState;
    const sentMs = tombstoneMs === 0 ? 0 : clock.now();
    try {
      const { answer, hasLeftBefore } = await this.#leave(isLost && this.#keepsLock);
      if (answer.state !== "gone" || isRepeated) return answer;
      // The tombstone of an earlier copy tells that it was executed, as long as it lasts.
      const isUncertain = tombstoneMs === 0
        ? commands.epoch !== epoch
        : hasLeftBefore || clock.now() - sentMs >= tombstoneMs;
      if (!isUncertain) return answer;
    } catch (cause) {
      return refusalOfRelease(cause) ?? { state: "unknown", cause };
    } finally {
      // Not before: an answer on its way may still name this holder, which is not a lost grant.
      this.#context.held.remove(this.#terms.keys.lock, this.value);
    }
    return { state: "unknown", cause: new Error("The client may have sent the release twice") };
  }

  /**
   * Ends a call that got no lease. If the server may know of the call, leaves in the background until
   * the server has answered, or everything has expired there. From now on a grant message for this
   * call makes the next waiter the holder.
   */
  cleanUp(): void {
    const { engine } = this.#context;
    const { isNeeded, isUnsettled } = this.cleanUpState;
    if (!isNeeded && !isUnsettled) return;
    this.#cleaning = engine.background.run(() => this.#cleanUp()).then(() => {
      this.#cleaning = null;
    });
  }

  async #cleanUp(): Promise<void> {
    const { clock, stopped } = this.#context.engine;
    const { ttlMs, mode, outlivesDisposal } = this.#terms;
    // The answer to the last ask tells whether a leave is needed. Without it the client may have the
    // ask in a queue: a leave would then be one more command there.
    await abortable(this.cleanUpState.settled(), stopped);
    if (!this.cleanUpState.isNeeded) return;
    // Another call may hold the lock under the same owner id: this clean-up must not release it.
    const keepsLock = this.#keepsLock || mode.kind === "attach" || outlivesDisposal;
    const untilMs = clock.now() + ttlMs + TOMBSTONE_MS;
    for (let delayMs = RETRY_MS; !stopped.aborted && clock.now() < untilMs; delayMs *= 2) {
      const isDone = await this.#leave(keepsLock).then(() => true, isRefusedForGood);
      if (isDone) return;
      // Disposal ends the pause by closing the clock: thousands of listeners on a signal are slow.
      await pause(clock, Math.min(delayMs, MAX_RETRY_MS));
    }
  }

  #leave(keepsLock: boolean): Promise<LeaveAnswer> {
    const { keys } = this.#terms;
    return this.#context.commands.leave(
      keys,
      this.value,
      this.cleanUpState.tombstoneMs,
      keepsLock,
    );
  }
}

function isRefusedForGood(error: unknown): boolean {
  return classifyFailure(error).kind === "refused";
}

function refusalOfRelease(cause: unknown): ReleaseAnswer | null {
  if (!isRefusedForGood(cause)) return null;
  const reason = `Redis refuses: ${classifyFailure(cause).reason}. ` +
    "Until its TTL is over, the lock stays held";
  return { state: "refused", reason, cause };
}
