/**
 * Holds the lock for an Express response: the handler's end is the end of its response, as nothing else
 * says when it ends. When the lock is released is in `response_hold.ts`.
 *
 * @module
 */
import type { Lease } from "../../core/contract/distributed_lock.ts";
import type { HandlerEndListener, HandlerShield, ShieldedResponse } from "./handler_shield.ts";
import { lossOf } from "./lease_end.ts";
import { type HoldSettings, report } from "./options.ts";
import { BODY_HEADERS, leaseLost, type Problem } from "./problem.ts";
import { type LossListener, ResponseHold } from "./response_hold.ts";
import type { ResponseWatch } from "./response_watch.ts";

/** A response, and what observes it. */
export interface WatchedResponse {
  readonly response: ShieldedResponse;
  readonly shield: HandlerShield;
  readonly watch: ResponseWatch;
}

/** Holds the lock of one request until its response is over and its handler has ended. */
export class ExpressHold implements LossListener, HandlerEndListener {
  readonly #lease: Lease;
  readonly #watched: WatchedResponse;
  readonly #settings: HoldSettings;
  readonly #hold: ResponseHold;
  /** The methods as they are before later middleware wraps them. */
  readonly #end: ShieldedResponse["end"];
  readonly #writeHead: ShieldedResponse["writeHead"];
  #isAnswered = false;
  #isLost = false;

  constructor(lease: Lease, watched: WatchedResponse, settings: HoldSettings) {
    this.#lease = lease;
    this.#watched = watched;
    this.#settings = settings;
    const { response, shield, watch } = watched;
    this.#end = response.end;
    this.#writeHead = response.writeHead;
    response.end = (...args) => this.#handlerAnswers(args);
    shield.onHandlerEnd(this);
    this.#hold = new ResponseHold(lease, watch, true, this, settings);
    if (this.#isLost) this.handlerEnded();
  }

  /** Whether the lease was lost at once, so that the handler must not run. */
  get isLost(): boolean {
    return this.#isLost;
  }

  /** The lease is lost before anything was sent. */
  leaseLost(): void {
    this.#answerLoss(this.#lease.signal.reason);
  }

  /** The handler has given up its response. */
  handlerEnded(): void {
    this.#hold.handlerEnded();
  }

  /** The handler ends its response. The end waits until the lease is proven and the lock released. */
  #handlerAnswers(args: never[]): ShieldedResponse {
    const { response, shield } = this.#watched;
    // If the answer is not the handler's, an inner lock has lost its lease, and the handler runs on.
    if (shield.isReplaced || this.#isAnswered) {
      this.#end.apply(response, args);
      return response;
    }
    this.#isAnswered = true;
    shield.answered();
    lossOf(this.#lease).then((loss) => this.#finish(loss, args)).catch((error) => {
      report(this.#settings, error);
      shield.destroy();
    });
    return response;
  }

  #finish(loss: unknown, args: never[]): void {
    if (loss !== null) this.#answerLoss(loss);
    this.#hold.handlerEnded();
    if (loss === null && !this.#watched.shield.isReplaced) {
      this.#end.apply(this.#watched.response, args);
    }
  }

  /** Answers 503, or breaks the response off if it has begun. */
  #answerLoss(loss: unknown): void {
    if (this.#isLost) return;
    this.#isLost = true;
    report(this.#settings, loss);
    const { response, shield, watch } = this.#watched;
    if (shield.isReplaced) return;
    if (watch.hasBegun) return watch.breakOff();
    shield.replace(() => {
      if (watch.gone.aborted) return;
      response.writeHead = this.#writeHead;
      const body = writeProblem(response, leaseLost());
      this.#end.apply(response, [body as never]);
    });
  }
}

/** Sets the status and the headers of a problem, and returns the body to send. */
export function writeProblem(
  response: ShieldedResponse,
  { status, headers, body }: Problem,
): string {
  for (const name of BODY_HEADERS) response.removeHeader(name);
  response.statusCode = status;
  for (const [name, value] of Object.entries(headers)) response.setHeader(name, value);
  response.setHeader("content-length", String(body.length)); // all characters are ASCII
  return body;
}
