/**
 * How an acquire call gets the lock: it asks, waits in the queue, and opens a lease for the grant. Its
 * states are in `acquisition_state.ts`, its asks in `asks.ts`, renewal and clean-up in `hold.ts`.
 *
 * @module
 */
import type { AbortListener } from "./abort_watch.ts";
import { type Instant, instant } from "../core/time/clock.ts";
import type { WaitInfo } from "../core/contract/distributed_lock.ts";
import { LockError, LockSetupError, LockUnavailableError } from "../core/contract/errors.ts";
import { type Grant, grantDeadlineMs, type RenewAnswer } from "../core/lease/grant.ts";
import type { ManagedLease } from "../core/lease/lease.ts";
import { AcquisitionState } from "./acquisition_state.ts";
import { Asks, type AskTerms } from "./asks.ts";
import { type CallContext, Hold, type HoldListener } from "./hold.ts";
import type { AskResult } from "./protocol/ask.ts";
import type { LockKeys } from "./protocol/keys.ts";
import type { GrantMessage, InboxMessage } from "./protocol/messages.ts";
import type { Queued, Refused } from "./protocol/replies.ts";
import { claimStartMs } from "./waiting/claim_start.ts";
import type { Waiter } from "./waiting/waiter.ts";

/** The arguments and options of an acquire call. */
export interface AcquisitionRequest extends AskTerms {
  readonly name: string;
  readonly autoRenew: boolean;
  readonly maxHoldMs: number | undefined;
  /** The caller's option: is called when the call starts to wait. */
  readonly onWait: ((info: WaitInfo) => void) | undefined;
}

/** Gets the events of an acquisition. */
export interface AcquisitionListener extends HoldListener {
  /** The server has answered an ask that the call waits in the queue. May be called repeatedly. */
  onQueued(info: WaitInfo): void;
}

/** The part of a grant that an answer or a message tells. */
type GrantedTime = Pick<Grant, "sent" | "startMs" | "validMs" | "fencingToken">;

/** The time that the holder has left. Left out where its lock has no TTL. */
function remaining({ leftMs }: { readonly leftMs: number }): Pick<WaitInfo, "remainingMs"> {
  return leftMs < 0 ? {} : { remainingMs: leftMs };
}

function hasSamePlace(one: WaitInfo, other: WaitInfo): boolean {
  return one.position === other.position && one.waiters === other.waiters;
}

/** One acquire call. */
export class Acquisition implements Waiter, AbortListener {
  readonly #context: CallContext;
  readonly #request: AcquisitionRequest;
  readonly #listener: AcquisitionListener | null;
  readonly #hold: Hold;
  readonly #asks: Asks;
  readonly #state = new AcquisitionState();
  /** Implements {@linkcode Waiter}. */
  bagIndex = -1;
  /** The last report to `onWait`. */
  #reported: WaitInfo = {};

  constructor(
    context: CallContext,
    request: AcquisitionRequest,
    listener: AcquisitionListener | null = null,
  ) {
    this.#context = context;
    this.#request = request;
    this.#listener = listener;
    this.#hold = new Hold(context, request, listener);
    this.#asks = new Asks(context, request, this.#state, this.#hold);
  }

  get keys(): LockKeys {
    return this.#request.keys;
  }

  get value(): string {
    return this.#hold.value;
  }

  get ticket(): number {
    return this.#asks.ticket;
  }

  /**
   * Resolves with the lease, or with `null` if another owner holds the lock and the caller does not
   * wait. If the call ends without a lease, it cleans up on the server in the background.
   */
  async run(): Promise<ManagedLease | null> {
    const { engine: { background }, waiters, aborts } = this.#context;
    const { callerSignal } = this.#request;
    waiters.register(this);
    background.enter(); // disposal waits for the clean-up
    if (callerSignal !== undefined) aborts.add(callerSignal, this);
    let lease: ManagedLease | null = null;
    try {
      return lease = await this.#acquire();
    } catch (error) {
      // Others find out by an ask of their own, also about a refusal.
      if (error instanceof LockUnavailableError || error instanceof LockSetupError) {
        waiters.reportOutage(this);
      }
      throw error;
    } finally {
      if (callerSignal !== undefined) aborts.delete(callerSignal, this);
      this.#asks.end();
      waiters.unregister(this);
      if (lease === null) this.#hold.cleanUp();
      background.exit();
    }
  }

  /** Acts on the phase, until the call has a lease or is denied. */
  async #acquire(): Promise<ManagedLease | null> {
    for (;;) {
      const { phase } = this.#state;
      if (phase.kind === "acquired") return phase.lease;
      if (phase.kind === "denied") return null;
      this.#asks.throwIfEnded();
      if (phase.kind === "asking") {
        const result = await this.#asks.send();
        if (result !== null) this.#onAnswer(result);
      } else if (phase.kind === "queued") await this.#waitInQueue();
      else this.#accept(phase.message, phase.received);
    }
  }

  #onAnswer(result: AskResult): void {
    if (!this.#state.takesAnswer) return; // a message came, or the call was withdrawn, just now
    const { name, budget } = this.#request;
    const { answer, sent } = result;
    // A grant that arrives too late for a lease does not end an outage.
    if (answer.state !== "granted") budget.answered();
    switch (answer.state) {
      case "granted":
        return this.#open({ sent, ...answer });
      case "queued":
        return this.#enqueue(answer, result);
      case "held":
        return this.#refuse(answer);
      case "ended":
        throw new LockError(
          `Cannot acquire lock ${JSON.stringify(name)}: the call has left it`,
          name,
        );
      default:
        return; // the server is still searching for the next waiter: asks again
    }
  }

  /** The server has queued the call, at the place of its first ticket. */
  #enqueue(answer: Queued, result: AskResult): void {
    const { position, waiters } = answer;
    this.#asks.keepTicket(answer.ticket);
    const info = { position, waiters, ...remaining(answer) };
    const { onWait } = this.#request;
    if (onWait !== undefined && !hasSamePlace(info, this.#reported)) onWait(this.#reported = info);
    this.#state.enqueue();
    this.#context.waiters.enqueue(this, answer, result);
    // If another ask is due, its answer counts.
    if (this.#state.phase.kind === "queued") this.#listener?.onQueued(info);
  }

  /** Another owner holds the lock, and the call does not wait. */
  #refuse(answer: Refused): void {
    const { mode, onWait } = this.#request;
    if (mode.kind === "try") onWait?.({ waiters: answer.waiters, ...remaining(answer) });
    this.#state.deny();
  }

  async #waitInQueue(): Promise<void> {
    await this.#state.change();
    this.#asks.begin();
  }

  /**
   * Opens a lease for a grant that arrived as a message, if more than half of its claim is left and the
   * lease is renewed automatically. Otherwise asks once more, which extends the claim to the whole TTL.
   */
  #accept({ serverMs, claimMs, fencingToken }: GrantMessage, received: Instant): void {
    const { waiters, engine, held } = this.#context;
    this.#state.takeGrant();
    this.#hold.cleanUpState.onGrant();
    const { firstSent } = this.#hold;
    if (firstSent === null) return; // nobody can grant what nobody has asked for
    if (held.hasLater(this.keys.lock, fencingToken)) return; // it was taken over since
    const mapping = waiters.clockMapping(this.keys);
    const startMs = claimStartMs(mapping, firstSent.nowMs, serverMs, received.nowMs);
    const grant = { sent: mapping?.sent ?? firstSent, startMs, validMs: claimMs };
    const leftMs = grantDeadlineMs({ ...grant, ttlMs: claimMs }) - engine.clock.now();
    if (this.#request.autoRenew && leftMs > claimMs / 2) this.#open({ ...grant, fencingToken });
  }

  /** Opens a lease for a grant. If the grant is over already, the call asks again as the same owner. */
  #open(grant: GrantedTime): void {
    const { name, owner, ttlMs, autoRenew, budget, maxHoldMs, outlivesDisposal } = this.#request;
    // An earlier call of this owner id may have a longer TTL, which stays.
    const longestMs = outlivesDisposal ? Math.max(ttlMs, grant.validMs) : ttlMs;
    const terms = { ttlMs: longestMs, autoRenew, maxHoldMs, outlivesDisposal };
    const { ownerId } = owner;
    const lease = this.#context.engine.open({ ...grant, ...terms, name, ownerId }, this.#hold);
    if (lease === null) return budget.check();
    this.#asks.end();
    this.#context.held.add(this.keys.lock, this.value, lease);
    this.#state.acquire(lease);
  }

  /** Ends the call without a lease, unless it has one: another call of its owner id has the lock. */
  withdraw(): void {
    this.#state.withdraw();
  }

  /** From now on a clean-up leaves a lock that the call may have on the server. */
  keepLock(): void {
    this.#hold.keepLock();
  }

  /** Whether Redis may still execute an ask or a clean-up of this call. */
  get isUnsettled(): boolean {
    return this.#hold.isUnsettled;
  }

  /** Resolves when Redis executes neither any more. The call must have ended. */
  settled(): Promise<void> {
    return this.#hold.settled();
  }

  /** Sends one renewal of the lease. */
  renew(ttlMs: number): Promise<RenewAnswer> {
    return this.#hold.renew(ttlMs);
  }

  /** Implements {@linkcode Waiter}. If the call has a lease already, a grant is a duplicate. */
  onMessage(message: InboxMessage): void {
    if (message.kind === "stolen") this.#onStolen();
    else if (message.kind !== "grant") this.#state.requireAsk();
    else this.#state.grant(message, instant(this.#context.engine.clock));
  }

  /** The lock was stolen from this call. If it has no lease yet, its caller never sees the grant. */
  #onStolen(): void {
    const { phase } = this.#state;
    if (phase.kind === "acquired") phase.lease.lose("stolen");
    else this.#state.voidGrant();
  }

  /** Implements {@linkcode Waiter}. */
  onAskDue(): void {
    this.#state.requireAsk();
  }

  /** Implements {@linkcode Waiter}. An ask that is under way finds out for itself. */
  onOutage(): void {
    if (this.#state.phase.kind !== "queued") return;
    this.#asks.isInOutage = true;
    this.#state.requireAsk();
  }

  /** Implements {@linkcode Waiter} and {@linkcode AbortListener}: the call ends. */
  onAborted(): void {
    this.#state.wake();
  }
}
