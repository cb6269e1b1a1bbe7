/**
 * How an acquire call gets the lock: it asks, waits in the queue, and opens a lease for the grant. The
 * states of a call are in `acquisition_state.ts`; renewal, release and clean-up in `hold.ts`.
 *
 * @module
 */
import { abortable } from "../core/abort.ts";
import { type Instant, instant } from "../core/clock.ts";
import type { WaitInfo } from "../core/distributed_lock.ts";
import { LockError, LockUnavailableError } from "../core/errors.ts";
import { type Grant, grantDeadlineMs } from "../core/grant.ts";
import type { ManagedLease } from "../core/lease.ts";
import type { OutageBudget } from "../core/outage_budget.ts";
import { AcquisitionState } from "./acquisition_state.ts";
import { type CallContext, Hold, type HoldListener, type HoldTerms } from "./hold.ts";
import type { Ask, AskResult } from "./protocol/commands.ts";
import type { LockKeys } from "./protocol/keys.ts";
import type { GrantMessage, InboxMessage } from "./protocol/messages.ts";
import type { Queued } from "./protocol/replies.ts";
import { claimStartMs } from "./waiting/claim_start.ts";
import type { Waiter } from "./waiting/waiter.ts";

/** The arguments and options of an acquire call. */
export interface AcquisitionRequest extends HoldTerms {
  readonly name: string;
  readonly autoRenew: boolean;
  readonly maxHoldMs: number | undefined;
  readonly budget: OutageBudget;
  /** Aborts when the call ends: the caller's signal, and disposal. */
  readonly signal: AbortSignal;
  readonly callerSignal: AbortSignal | undefined;
  /** The caller's option: is called when the call starts to wait. */
  readonly onWait: ((info: WaitInfo) => void) | undefined;
}

/** Gets the events of an acquisition. */
export interface AcquisitionListener extends HoldListener {
  /** The call waits in the queue. May be called repeatedly. */
  onQueued(): void;
}

/** The part of a grant that an answer or a message tells. */
type GrantedTime = Pick<Grant, "sent" | "startMs" | "validMs" | "fencingToken">;

/**
 * One acquire call. It sends one ask at a time, so that a client's offline queue cannot grow. There is
 * one exception: a grant message that arrives too late makes it ask while the last ask is unanswered.
 */
export class Acquisition implements Waiter {
  readonly #context: CallContext;
  readonly #request: AcquisitionRequest;
  readonly #listener: AcquisitionListener | null;
  readonly #hold: Hold;
  readonly #firstSent: Instant;
  readonly #ask: Ask;
  readonly #state = new AcquisitionState();

  constructor(
    context: CallContext,
    request: AcquisitionRequest,
    listener: AcquisitionListener | null = null,
  ) {
    this.#context = context;
    this.#request = request;
    this.#listener = listener;
    this.#hold = new Hold(context, request, listener);
    this.#firstSent = instant(context.engine.clock);
    const { keys, owner, ttlMs, mode, signal } = request;
    const place = { inbox: "", isCountable: false, ticket: 0 }; // filled in by #send() and #enqueue()
    this.#ask = { keys, owner, ttlMs, mode, signal, ...place, isWanted: true };
  }

  get keys(): LockKeys {
    return this.#request.keys;
  }

  get value(): string {
    return this.#hold.value;
  }

  get ticket(): number {
    return this.#ask.ticket;
  }

  /**
   * Resolves with the lease, or with `null` if another owner holds the lock and the caller does not
   * wait. If the call ends without a lease, it cleans up on the server in the background.
   */
  async run(): Promise<ManagedLease | null> {
    const { engine: { background }, waiters } = this.#context;
    waiters.register(this);
    background.enter(); // disposal waits for the clean-up
    let lease: ManagedLease | null = null;
    try {
      return lease = await this.#acquire();
    } catch (error) {
      if (error instanceof LockUnavailableError) waiters.failAll(this.keys, error);
      throw error;
    } finally {
      this.#ask.isWanted = false;
      waiters.dequeue(this);
      if (lease === null) this.#hold.cleanUp();
      background.exit();
    }
  }

  /** Acts on the phase, until the call has a lease or is denied. */
  async #acquire(): Promise<ManagedLease | null> {
    const { signal } = this.#request;
    for (;;) {
      const { phase } = this.#state;
      if (phase.kind === "acquired") return phase.lease;
      if (phase.kind === "denied") return null;
      signal.throwIfAborted();
      if (phase.kind === "asking") await this.#askOnce();
      else if (phase.kind === "queued") await this.#waitInQueue();
      else if (phase.kind === "granted") this.#accept(phase.message, phase.received);
      else throw phase.error;
    }
  }

  /** Sends one ask and waits for its answer, or for a grant message that arrives before it. */
  async #askOnce(): Promise<void> {
    const { budget, signal, callerSignal } = this.#request;
    this.#state.sendAsk();
    let result: AskResult | void;
    try {
      result = await budget.settle(this.#state.changeOr(this.#send()), callerSignal);
    } catch (error) {
      return await budget.recover(error);
    }
    signal.throwIfAborted();
    if (result !== undefined) this.#onAnswer(result);
  }

  /** Sends one ask, and reports its outcome to the clean-up state, however late. */
  #send(): Promise<AskResult> {
    const { commands, waiters: { inbox } } = this.#context;
    const { cleanUpState } = this.#hold;
    const { epoch } = commands;
    this.#ask.inbox = inbox.id;
    this.#ask.isCountable = inbox.isCountable;
    const isDated = commands.knowsServerTime(this.keys);
    cleanUpState.onAsk(isDated);
    return commands.ask(this.#ask).then((result) => {
      cleanUpState.onAnswer(result, isDated);
      return result;
    }, (error) => {
      cleanUpState.onFailure(error, epoch);
      throw error;
    });
  }

  #onAnswer(result: AskResult): void {
    if (!this.#state.takesAnswer) return;
    const { name, budget } = this.#request;
    const { answer, sent } = result;
    // Neither a grant that arrives too late for a lease nor a "too late" ends an outage.
    if (answer.state !== "granted" && answer.state !== "late") budget.answered();
    switch (answer.state) {
      case "granted":
        return this.#open({ sent, ...answer });
      case "queued":
        return this.#enqueue(answer, result);
      case "held":
        return this.#state.deny();
      case "searching":
        return; // asks again
      case "late":
        return budget.check(); // asks again, with the server's time that this answer told
      case "ended":
        throw new LockError(
          `Cannot acquire lock ${JSON.stringify(name)}: the call has left it`,
          name,
        );
    }
  }

  /** The server has queued the call, at the place of its first ticket. */
  #enqueue(answer: Queued, result: AskResult): void {
    const { position, waiters } = answer;
    this.#ask.ticket ||= answer.ticket;
    this.#listener?.onQueued();
    const { onWait } = this.#request;
    onWait?.({ position, waiters });
    this.#state.enqueue();
    this.#context.waiters.enqueue(this, answer, result);
  }

  async #waitInQueue(): Promise<void> {
    const { budget, callerSignal } = this.#request;
    const change = this.#state.change();
    await (callerSignal === undefined ? change : abortable(change, callerSignal));
    budget.answered(); // the next ask has the whole budget
  }

  /**
   * Opens a lease for a grant that arrived as a message, if more than half of its claim is left and the
   * lease is renewed automatically. Otherwise asks once more, which extends the claim to the whole TTL.
   */
  #accept({ serverMs, claimMs, fencingToken }: GrantMessage, received: Instant): void {
    const { waiters, engine } = this.#context;
    this.#state.takeGrant();
    this.#hold.cleanUpState.onGrant();
    const mapping = waiters.clockMapping(this.keys);
    const startMs = claimStartMs(mapping, this.#firstSent.nowMs, serverMs, received.nowMs);
    const grant = { sent: mapping?.sent ?? this.#firstSent, startMs, validMs: claimMs };
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
    this.#ask.isWanted = false;
    this.#state.acquire(lease);
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

  /** Implements {@linkcode Waiter}. */
  onUnavailable(error: unknown): void {
    this.#state.fail(error);
  }

  /** Implements {@linkcode Waiter}. The request's signal is aborted by now. */
  onDisposed(): void {
    this.#state.wake();
  }
}
