/**
 * Holds the lock for a Fastify reply: notices when the handler has answered, and sends an error if the
 * lease is lost before. When the lock is released is in `response_hold.ts`.
 *
 * @module
 */
import type { Lease } from "../../core/contract/distributed_lock.ts";
import { type FastifyLockReply, sendNow } from "./fastify_reply.ts";
import { type HoldSettings, report } from "./options.ts";
import { leaseLost } from "./problem.ts";
import { type LossListener, ResponseHold } from "./response_hold.ts";
import type { ResponseWatch } from "./response_watch.ts";

/**
 * How far the handler's answer has come:
 * - `"none"`: the handler has not answered;
 * - `"expected"`: the handler has returned without an answer and will send one later: until then it
 *   counts as running;
 * - `"given"`: the handler has answered; hooks may still run for a long time before anything is sent;
 * - `"made"`: the response is ready, or the handler writes it by hand: if the lease is lost now, the
 *   response can only be broken off.
 */
type AnswerPhase = "none" | "expected" | "given" | "made";

/** Holds the lock for one reply. */
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
    this.#hold = new ResponseHold(lease, watch, false, this, settings);
  }

  /**
   * Runs the handler. It may answer with `reply.send()` while it runs, with its result, or with
   * `reply.send()` later. Fastify sends the result only if there is no other answer: see
   * `#endAfterAnswer()`.
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

  /** The hooks have run and the response is ready to be sent. */
  responseMade(): void {
    this.#answerGiven();
    this.#answer = "made";
  }

  /** Sends the error, unless the handler has answered: two answers must never be under way. */
  leaseLost(): void {
    if (this.#answer === "made") this.#watch.breakOff();
    if (this.#answer === "made" || this.#answer === "given" || this.#reply.sent) return;
    report(this.#settings, this.lease.signal.reason);
    sendNow(this.#reply, leaseLost());
  }

  /** The handler has returned nothing: it will call `reply.send()` later, unless it has done so. */
  #handlerReturned(): void {
    if (this.#answer === "none") this.#answer = "expected";
    else this.#hold.handlerEnded();
  }

  #answerGiven(): void {
    const isExpected = this.#answer === "expected";
    if (isExpected || this.#answer === "none") this.#answer = "given";
    if (isExpected) this.#hold.handlerEnded();
  }

  /**
   * While hooks run, Fastify does not see that the handler has answered, and would send the result as a
   * second answer. So the result waits until the first answer was sent.
   */
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
   * Wraps the methods of the reply by which a handler answers, or waits for the end of its response.
   *
   * @returns A function that waits until the answer was sent.
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
    // A handler that returns its reply waits for the end of the response. The lock is released before
    // that end, so the handler must be notified earlier, or each would wait for the other.
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

/** Whether a value can be awaited. Replies can. */
function isThenable(value: unknown): value is PromiseLike<unknown> {
  return typeof (value as PromiseLike<unknown> | undefined)?.then === "function";
}
