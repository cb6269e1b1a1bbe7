/**
 * The asks of one acquire call: when they are sent, and what follows if there is no answer or a late
 * one. The call acts on the answers in `acquisition.ts`.
 *
 * @module
 */
import { pause } from "../core/time/clock.ts";
import { type OutageBudget, RETRY_MS } from "../core/time/outage_budget.ts";
import type { AcquisitionState } from "./acquisition_state.ts";
import type { CallContext, Hold, HoldTerms } from "./hold.ts";
import { type Ask, ASK_LIFE_MS, type AskResult } from "./protocol/ask.ts";

/** Longest pause in ms after an ask that came too late. The first pause is {@linkcode RETRY_MS}. */
const MAX_LATE_PAUSE_MS = 1_000;
/** After how many asks in a row that came too late a call gives up, unless it is in the queue. */
const MAX_LATE_ASKS = 8;

/** The part of a call that its asks need. */
export interface AskTerms extends HoldTerms {
  readonly budget: OutageBudget;
  /** How long in ms an outage may last before the call gives up. */
  readonly unavailableAfterMs: number;
  readonly callerSignal: AbortSignal | undefined;
  /** Aborts at disposal. */
  readonly ended: AbortSignal;
}

/**
 * The asks of one call. They follow one another, so that a client's offline queue cannot grow. There is
 * one exception: a grant message that arrives too late makes the call ask while an ask is unanswered.
 */
export class Asks {
  /** Whether the next ask continues an outage that another call has found. */
  isInOutage = false;
  readonly #context: CallContext;
  readonly #terms: AskTerms;
  readonly #state: AcquisitionState;
  readonly #hold: Hold;
  readonly #ask: Ask;
  /** How many asks in a row came too late. */
  #lateAsks = 0;

  /** @param hold Is notified of the fate of each ask, however late. */
  constructor(
    context: CallContext,
    terms: AskTerms,
    state: AcquisitionState,
    hold: Hold,
  ) {
    this.#context = context;
    this.#terms = terms;
    this.#state = state;
    this.#hold = hold;
    const { keys, owner, ttlMs, mode, budget } = terms;
    const { inbox } = context.waiters;
    const [ticket, isWanted] = [0, true];
    this.#ask = { keys, owner, ttlMs, mode, inbox, budget, listener: hold, ticket, isWanted };
  }

  /** The ticket of the first answer; 0 before that. */
  get ticket(): number {
    return this.#ask.ticket;
  }

  /** Throws if the caller's signal has aborted, or at disposal. */
  throwIfEnded(): void {
    this.#terms.callerSignal?.throwIfAborted();
    this.#terms.ended.throwIfAborted();
  }

  /** Stores the ticket of an answer. That of the first one stays. */
  keepTicket(ticket: number): void {
    this.#ask.ticket ||= ticket;
  }

  /** Begins to ask again, after a wait in the queue. */
  begin(): void {
    this.#terms.budget.answered(); // the next ask has the whole budget
    if (this.isInOutage) this.#continueOutage();
  }

  /**
   * Sends one ask and waits for its answer, or for a grant message that arrives before it. Resolves with
   * the answer; with `null` if it does not count, after a pause if an ask must follow.
   */
  async send(): Promise<AskResult | null> {
    const { budget } = this.#terms;
    this.#state.sendAsk();
    let result: AskResult | void;
    try {
      result = await this.#state.changeOr(this.#context.commands.ask(this.#ask));
    } catch (error) {
      this.throwIfEnded();
      budget.judge(error);
      await this.#pause(RETRY_MS);
      return null;
    }
    this.throwIfEnded();
    if (result === undefined || !this.#state.takesAnswer) return null;
    if (result.answer.state === "late") return await this.#onLate();
    this.#lateAsks = 0;
    return result;
  }

  /** Withdraws an ask that is not sent yet. From now on no ask is sent. */
  end(): void {
    this.#ask.isWanted = false;
    this.#context.commands.withdraw(this.#ask);
  }

  /**
   * The server got the ask too late and did nothing. It answers, so this is no outage. But an ask that
   * follows at once would not help a server or a process that is behind.
   */
  async #onLate(): Promise<null> {
    const { budget } = this.#terms;
    budget.answered();
    this.#lateAsks++;
    if (this.ticket === 0 && this.#lateAsks >= MAX_LATE_ASKS) {
      throw budget.unavailable(
        new Error(
          `Each of the last ${MAX_LATE_ASKS} requests took over ${ASK_LIFE_MS} ms to reach the server`,
        ),
      );
    }
    await this.#pause(Math.min(RETRY_MS * 2 ** (this.#lateAsks - 1), MAX_LATE_PAUSE_MS));
    return null;
  }

  /** Waits, unless the phase changes first. */
  async #pause(delayMs: number): Promise<void> {
    await this.#state.changeOr(pause(this.#context.engine.clock, delayMs));
  }

  /**
   * The outage that another call has found began when the server fell silent, but not before this call.
   * At least `ASK_LIFE_MS` of the budget is left, so that an answer has the time to arrive.
   */
  #continueOutage(): void {
    this.isInOutage = false;
    const { budget, unavailableAfterMs } = this.#terms;
    const { engine: { clock }, commands } = this.#context;
    const nowMs = clock.now();
    const silentSinceMs = commands.silentSinceMs ?? nowMs;
    const earliestMs = nowMs - Math.max(0, unavailableAfterMs - ASK_LIFE_MS);
    const firstSentMs = this.#hold.firstSent?.nowMs ?? nowMs;
    budget.beganAt(Math.max(firstSentMs, silentSinceMs, earliestMs));
  }
}
