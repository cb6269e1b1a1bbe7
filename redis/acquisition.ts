/**
 * How an acquire call gets the lock: it asks, waits in the queue, and opens a lease for the grant. The
 * states of a call are in `acquisition_state.ts`; renewal, release and clean-up in `hold.ts`.
 *
 * @module
 */
import { type Instant, instant, pause } from "../core/clock.ts";
import type { WaitInfo } from "../core/distributed_lock.ts";
import { LockError, LockUnavailableError } from "../core/errors.ts";
import { type Grant, grantDeadlineMs } from "../core/grant.ts";
import type { ManagedLease } from "../core/lease.ts";
import { type OutageBudget, RETRY_MS } from "../core/outage_budget.ts";
import { AcquisitionState } from "./acquisition_state.ts";
import { type CallContext, Hold, type HoldListener, type HoldTerms } from "./hold.ts";
import { type Ask, ASK_LIFE_MS, type AskResult } from "./protocol/ask.ts";
import type { LockKeys } from "./protocol/keys.ts";
import type { GrantMessage, InboxMessage } from "./protocol/messages.ts";
import type { Queued } from "./protocol/replies.ts";
import { claimStartMs } from "./waiting/claim_start.ts";
import type { Waiter } from "./waiting/waiter.ts";

/** Longest pause in ms after an ask that came too late. The first pause is {@linkcode RETRY_MS}. */
const MAX_LATE_PAUSE_MS = 1_000;
/** After how many asks in a row that came too late a call gives up, unless it is in the queue. */
const MAX_LATE_ASKS = 8;

/** The arguments and options of an acquire call. */
export interface AcquisitionRequest extends HoldTerms {
  readonly name: string;
  readonly autoRenew: boolean;
  readonly maxHoldMs: number | undefined;
  readonly budget: OutageBudget;
  /** How long in ms an outage may last before the call gives up. */
  readonly unavailableAfterMs: number;
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
  /** How many asks in a row came too late. */
  #lateAsks = 0;
  /** Whether the next ask continues an outage that another call has found. */
  #isInOutage = false;

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
    const { keys, owner, ttlMs, mode, budget } = request;
    const { inbox } = context.waiters;
    const terms = { keys, owner, ttlMs, mode, budget, inbox, listener: this.#hold.cleanUpState };
    this.#ask = { ...terms, ticket: 0, isWanted: true };
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
    const { callerSignal } = this.#request;
    const wake = () => this.#state.wake();
    waiters.register(this);
    background.enter(); // disposal waits for the clean-up
    callerSignal?.addEventListener("abort", wake);
    let lease: ManagedLease | null = null;
    try {
      return lease = await this.#acquire();
    } catch (error) {
      if (error instanceof LockUnavailableError) waiters.reportOutage(this);
      throw error;
    } finally {
      callerSignal?.removeEventListener("abort", wake);
      this.#withdraw();
      if (lease === null) this.#hold.cleanUp();
      background.exit();
    }
  }

  /** Sends no ask any more, and waits for no message. */
  #withdraw(): void {
    this.#ask.isWanted = false;
    this.#context.commands.withdraw(this.#ask);
    this.#context.waiters.dequeue(this);
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
      else this.#accept(phase.message, phase.received);
    }
  }

  /** Sends one ask and waits for its answer, or for a grant message that arrives before it. */
  async #askOnce(): Promise<void> {
    const { budget, signal } = this.#request;
    this.#state.sendAsk();
    let result: AskResult | void;
    try {
      result = await this.#state.changeOr(this.#context.commands.ask(this.#ask));
    } catch (error) {
      budget.judge(error);
      return await this.#pause(RETRY_MS);
    }
    if (result === undefined || !this.#state.takesAnswer) return;
    signal.throwIfAborted();
    if (result.answer.state === "late") return await this.#onLate();
    this.#lateAsks = 0;
    this.#onAnswer(result);
  }

  /** Waits, unless the phase changes first. */
  async #pause(delayMs: number): Promise<void> {
    await this.#state.changeOr(pause(this.#context.engine.clock, delayMs));
  }

  /**
   * The server got the ask too late and did nothing. It answers, so this is no outage, but asking again
   * at once would not help a server or a process that is behind.
   */
  async #onLate(): Promise<void> {
    const { budget } = this.#request;
    budget.answered();
    this.#lateAsks++;
    if (this.ticket === 0 && this.#lateAsks >= MAX_LATE_ASKS) {
      const text =
        `${MAX_LATE_ASKS} requests in a row took more than ${ASK_LIFE_MS} ms to the server`;
      throw budget.unavailable(new Error(text));
    }
    await this.#pause(Math.min(RETRY_MS * 2 ** (this.#lateAsks - 1), MAX_LATE_PAUSE_MS));
  }

  #onAnswer(result: AskResult): void {
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
        return this.#state.deny();
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
    this.#ask.ticket ||= answer.ticket;
    this.#listener?.onQueued();
    const { onWait } = this.#request;
    onWait?.({ position, waiters });
    this.#state.enqueue();
    this.#context.waiters.enqueue(this, answer, result);
  }

  async #waitInQueue(): Promise<void> {
    await this.#state.change();
    this.#request.budget.answered(); // the next ask has the whole budget
    if (this.#isInOutage) this.#continueOutage();
  }

  /**
   * The outage that another call has found began when the server fell silent, but not before this call.
   * At least `ASK_LIFE_MS` of the budget is left, so that an answer has the time to arrive.
   */
  #continueOutage(): void {
    this.#isInOutage = false;
    const { budget, unavailableAfterMs } = this.#request;
    const { engine: { clock }, commands } = this.#context;
    const nowMs = clock.now();
    const silentSinceMs = commands.silentSinceMs ?? nowMs;
    const latestMs = nowMs - Math.max(0, unavailableAfterMs - ASK_LIFE_MS);
    budget.beganAt(Math.max(this.#firstSent.nowMs, silentSinceMs, latestMs));
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

  /** Implements {@linkcode Waiter}. An ask that is under way finds out for itself. */
  onOutage(): void {
    if (this.#state.phase.kind === "queued") this.#isInOutage = true;
    this.#state.requireAsk();
  }

  /** Implements {@linkcode Waiter}. The request's signal is aborted by now. */
  onDisposed(): void {
    this.#state.wake();
  }
}
