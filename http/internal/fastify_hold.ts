/**
 * Holds a lease for a Fastify reply: follows the handler's answer, and answers a loss in its place.
 *
 * @module
 */
import type { Lease } from "../../core/distributed_lock.ts";
import { type FastifyLockReply, sendNow } from "./fastify_reply.ts";
import { type HoldSettings, report } from "./options.ts";
import { leaseLost } from "./problem.ts";
import { type LossListener, ResponseHold } from "./response_hold.ts";
import type { ResponseWatch } from "./response_watch.ts";

/**
 * - `"none"`: the handler has not answered;
 * - `"expected"`: the handler has returned and will answer later: it runs until then;
 * - `"given"`: the handler has answered; hooks may run for long before anything is sent;
 * - `"made"`: the response is made, or the handler writes it: a loss can only break it off.
 */
type AnswerPhase = "none" | "expected" | "given" | "made";

/** The hold of one reply. */
export class FastifyHold implements LossListener {
  readonly lease: Lease;
  readonly #reply: FastifyLockReply;
  readonly #watch: ResponseWatch;
  readonly #settings: HoldSettings;
  readonly #hold: ResponseHold;
  #answer: AnswerPhase = "none";

  constructor(lease: Lease, watch: ResponseWatch, reply: FastifyLockReply, settings: HoldSettings) {
    this.lease = lease;
    this.#reply = reply;
    this.#watch = watch;
    this.#settings = settings;
    this.#hold = new ResponseHold(lease, watch, false, this);
  }

  /**
   * Runs the handler, which may answer while it runs, by its result, or later. Without an answer
   * Fastify makes one of the result; two answers would meet in the hooks.
   */
  run(handler: () => unknown): unknown {
    const hold = this.#hold;
    hold.handlerStarted();
    const untilSent = this.#watchAnswer();
    let result: unknown;
    try {
      result = handler();
    } catch (error) {
      hold.handlerEnded();
      throw error;
    }
    if (isThenable(result)) {
      result.then(() => hold.handlerEnded(), () => hold.handlerEnded());
      return this.#endAfterAnswer(result, untilSent);
    }
    if (result === undefined && !this.#reply.sent) this.#handlerReturned();
    else hold.handlerEnded();
    return result;
  }

  /** The response is made. */
  responseMade(): void {
    this.#answerGiven();
    this.#answer = "made";
  }

  /** Called by the hold. Only one answer may be on its way. */
  leaseLost(): void {
    if (this.#answer === "made") this.#watch.breakOff();
    if (this.#answer === "made" || this.#answer === "given" || this.#reply.sent) return;
    report(this.#settings, this.lease.signal.reason);
    sendNow(this.#reply, leaseLost());
  }

  /** The handler will call `reply.send()` later, if it has not done so. */
  #handlerReturned(): void {
    if (this.#answer === "none") this.#answer = "expected";
    else this.#hold.handlerEnded();
  }

  #answerGiven(): void {
    const isExpected = this.#answer === "expected";
    if (isExpected || this.#answer === "none") this.#answer = "given";
    if (isExpected) this.#hold.handlerEnded();
  }

  /** An answer is not visible to Fastify while hooks run: its own answer to the result must wait. */
  async #endAfterAnswer(
    result: PromiseLike<unknown>,
    untilSent: () => Promise<void>,
  ): Promise<unknown> {
    try {
      return await result;
    } finally {
      if (this.#answer === "given" || this.#answer === "made") await untilSent();
    }
  }

  /**
   * Replaces what the handler answers with.
   *
   * @returns Waits until the answer was sent.
   */
  #watchAnswer(): () => Promise<void> {
    const reply = this.#reply;
    const { send, hijack, then } = reply;
    reply.send = (payload) => {
      const sent = send.call(reply, payload); // throws if a serializer does
      this.#answerGiven();
      return sent;
    };
    reply.hijack = () => {
      this.responseMade();
      return hijack.call(reply);
    };
    // A handler that returns its reply waits for the end of the response, which waits for the handler.
    reply.then = (onSent, onError) => {
      let isNotified = false;
      const once = <A extends unknown[]>(notify: (...args: A) => void) => (...args: A) => {
        if (isNotified) return;
        isNotified = true;
        notify(...args);
      };
      this.#hold.onEnd({ beforeEnd: once(onSent) });
      then.call(reply, once(onSent), once(onError));
    };
    return () => new Promise((resolve) => then.call(reply, resolve, () => resolve()));
  }
}

/** Whether it can be awaited; replies can. */
function isThenable(value: unknown): value is PromiseLike<unknown> {
  return typeof (value as PromiseLike<unknown> | undefined)?.then === "function";
}
