/**
 * A Fastify reply whose request holds a lock: how it notices that the handler has answered, and sends an
 * error if the lease is lost before. When the lock is released is in `../node_response.ts`.
 *
 * @module
 */
import type { Lease } from "../../../core/contract/distributed_lock.ts";
import { BODY_HEADERS, CLIENT_GONE, leaseLost, type Problem } from "../../shared/problem.ts";
import type { NodeResponse } from "../../shared/server.ts";
import type { LockedResponse, LossListener } from "../node_response.ts";
import { type HoldSettings, report } from "../options.ts";

/** The parts of a Fastify reply that are used. */
export interface FastifyLockReply {
  /** The `node:http` response. */
  readonly raw: NodeResponse & {
    /** Writes the status and the headers. */
    writeHead(status: number, headers: Record<string, string>): unknown;
    /** Sends the body and ends the response. */
    end(body: string): unknown;
  };
  /** Whether a response has been sent or is being sent. */
  readonly sent: boolean;
  /** Sets the status. */
  code(status: number): unknown;
  /** Sets headers. */
  headers(values: Record<string, string>): unknown;
  /** Sets a header. */
  header(name: string, value: string): unknown;
  /** Removes a header. */
  removeHeader(name: string): unknown;
  /** The headers so far. */
  getHeaders(): Record<string, unknown>;
  /** Sends a response. Replaced in order to notice the handler's answer. */
  send: (payload?: unknown) => unknown;
  /** Leaves the response to the handler. Replaced in order to notice it. */
  hijack: () => unknown;
  /** Waits until the response was sent. Replaced, since handlers may return or await their reply. */
  then: (onSent: () => void, onError: (error: Error) => void) => void;
}

export class LockedReply implements LossListener {
  readonly lease: Lease;
  readonly #reply: FastifyLockReply;
  readonly #locked: LockedResponse;
  readonly #settings: HoldSettings;
  /** The reply's own method: the one that the handler finds is taken for its answer. */
  readonly #hijack: () => unknown;
  /**
   * How far the handler's answer has come:
   * - `"none"`: the handler has not answered;
   * - `"given"`: the handler has answered; hooks may still run for a long time before anything is sent;
   * - `"made"`: the response is ready, or the handler writes it by hand: after a loss it can only be broken off.
   */
  #answer: "none" | "given" | "made" = "none";
  /** Whether the handler has returned and answers later: until then it counts as running, even after a loss. */
  #isAnswerExpected = false;
  #isLossAnswered = false;

  constructor(
    lease: Lease,
    locked: LockedResponse,
    reply: FastifyLockReply,
    settings: HoldSettings,
  ) {
    this.lease = lease;
    this.#reply = reply;
    this.#locked = locked;
    this.#settings = settings;
    this.#hijack = reply.hijack.bind(reply);
    locked.hold(lease, settings, this);
  }

  /**
   * Runs the handler. It may answer with `reply.send()` while it runs, with its result, or with
   * `reply.send()` later. Fastify sends the result only if there is no other answer: see `#endAfterAnswer()`.
   * Fastify also calls handlers whose client has left, and whose lock was released then: they do not run.
   */
  run(handler: () => unknown): unknown {
    const locked = this.#locked;
    if (!locked.startHandler()) return locked.hasBegun ? this.#reply : answerNobody(this.#reply);
    const untilSent = this.#watchAnswer();
    let result: unknown;
    try {
      result = handler();
    } catch (error) {
      locked.handlerEnded();
      throw error;
    }
    if (isThenable(result)) {
      result.then(() => locked.handlerEnded(), () => locked.handlerEnded());
      return this.#endAfterAnswer(result, untilSent);
    }
    // Without a result the handler will call `reply.send()` later, unless it has done so.
    const isAnswered = this.#answer !== "none" || this.#reply.sent && !this.#isLossAnswered;
    this.#isAnswerExpected = result === undefined && !isAnswered;
    if (!this.#isAnswerExpected) locked.handlerEnded();
    return result;
  }

  /** The handler has answered. A loss that is noticed from now on is answered by the hook that notices it. */
  answerGiven(): void {
    if (this.#answer === "none") this.#answer = "given";
    if (this.#isAnswerExpected) this.#locked.handlerEnded();
  }

  /** The hooks have run and the response is ready to be sent. */
  responseMade(): void {
    this.answerGiven();
    this.#answer = "made";
  }

  /** Sends the error, unless the handler has answered: two answers must never be under way. */
  onLeaseLost(): void {
    if (this.#answer === "made") this.#locked.breakOff();
    if (this.#answer !== "none" || this.#reply.sent) return;
    report(this.#settings, this.lease.signal.reason);
    this.#isLossAnswered = true;
    this.#sendNow(leaseLost());
  }

  /** Sends without hooks. The reply is hijacked: a later answer of the handler is ignored, but taken for its end. */
  #sendNow(problem: Problem): void {
    const reply = this.#reply;
    const body = writeProblem(reply, problem);
    reply.header("content-length", String(body.length)); // all characters are ASCII
    this.#hijack();
    reply.raw.writeHead(problem.status, reply.getHeaders() as Record<string, string>);
    reply.raw.end(body);
  }

  /** While hooks run, Fastify would send the result as a second answer: so it is kept until the first was sent. */
  async #endAfterAnswer(
    result: PromiseLike<unknown>,
    untilSent: () => Promise<void>,
  ): Promise<unknown> {
    try {
      return await result;
    } finally {
      if (this.#answer !== "none") await untilSent();
    }
  }

  /** Wraps the methods by which handlers answer or await the end. The result waits until the answer was sent. */
  #watchAnswer(): () => Promise<void> {
    const reply = this.#reply;
    const { send, then } = reply;
    reply.send = (payload) => {
      const sent = send.call(reply, payload); // throws if a serializer does
      this.answerGiven();
      return sent;
    };
    reply.hijack = () => {
      this.responseMade();
      return this.#hijack();
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
      this.#locked.beforeEnd(once(onSent));
      then.call(reply, once(onSent), once(onError));
    };
    return () => new Promise((resolve) => then.call(reply, resolve, () => resolve()));
  }
}

/** Sets the status and the headers of a problem on the reply, and returns the payload to send. */
export function writeProblem(reply: FastifyLockReply, { status, headers, body }: Problem): string {
  reply.code(status);
  for (const name of BODY_HEADERS) reply.removeHeader(name);
  reply.headers({ ...headers });
  return body;
}

/** Ends the handling of a request whose answer nobody awaits: the client has left, or has another one. */
export function answerNobody(reply: FastifyLockReply): FastifyLockReply {
  if (!reply.sent) {
    reply.code(CLIENT_GONE);
    reply.send();
  }
  return reply;
}

/** Whether a value can be awaited. Replies can. */
function isThenable(value: unknown): value is PromiseLike<unknown> {
  return typeof (value as PromiseLike<unknown> | undefined)?.then === "function";
}
