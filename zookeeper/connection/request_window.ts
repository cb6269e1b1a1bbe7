/**
 * The requests of a transport that are unanswered: how many of them are sent, and how long the server may
 * leave them without an answer. Their content is in `node_zookeeper_client.ts`.
 *
 * @module
 */
import { Fifo } from "./fifo.ts";
import type { ZooKeeperError } from "./errors.ts";

/**
 * Maximum number of requests that are sent and not answered yet. A heartbeat is answered after all of
 * them, so this bounds how long it takes, and how much work one chunk of answers makes. It also is enough
 * for 5,000 requests a second at a round trip of 50 ms.
 */
export const MAX_SENT_REQUESTS = 256;

/** One request that is unanswered. */
export interface WindowedRequest {
  /** Sends it. */
  send(): void;
  /** Ends it: it gets no answer. Must not throw. */
  fail(error: ZooKeeperError): void;
}

/** Is notified when the server stops answering. */
export interface RequestWindowListener {
  /** How long in ms the server may leave requests without any answer. */
  readonly limitMs: number;
  /** There was no answer for so long. Must not throw. */
  onOverdue(): void;
}

/**
 * Sends requests in the order of the calls. The server answers in that order, so each answer restarts the
 * deadline of all: a request behind many others is not overdue while those are answered. One timer serves
 * all requests.
 */
export class RequestWindow {
  readonly #listener: RequestWindowListener;
  readonly #sent = new Set<WindowedRequest>();
  #waiting = new Fifo<WindowedRequest>();
  #isSending = false;
  /** The last answer, or the first unanswered request if that is later; in monotonic ms. */
  #sinceMs = 0;
  /** May fire long after the last answer, which has no effect then. */
  #timer: ReturnType<typeof setTimeout> | undefined;

  /** Sends nothing yet. */
  constructor(listener: RequestWindowListener) {
    this.#listener = listener;
  }

  /**
   * Sends a request, as soon as less than {@linkcode MAX_SENT_REQUESTS} are unanswered.
   *
   * @param request The request.
   * @param isUrgent Whether to send it now, even before others.
   */
  add(request: WindowedRequest, isUrgent: boolean): void {
    if (isUrgent) return this.#send(request);
    this.#waiting.push(request);
    this.#sendWaiting();
  }

  /**
   * Records the answer to a request, and sends others that wait for it.
   *
   * @returns Whether the request was unanswered. If not, it has failed before.
   */
  answered(request: WindowedRequest): boolean {
    if (!this.#sent.delete(request)) return false;
    this.#sinceMs = performance.now();
    this.#sendWaiting();
    return true;
  }

  /** Restarts the deadline: a part of an answer has arrived. */
  postpone(): void {
    this.#restart();
  }

  /** Fails all requests: those that were sent with one error, those that were not with another one. */
  failAll(sentError: ZooKeeperError, unsentError: ZooKeeperError): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    const sent = [...this.#sent];
    const waiting = this.#waiting;
    this.#sent.clear();
    this.#waiting = new Fifo();
    for (const request of sent) request.fail(sentError);
    for (let request; (request = waiting.shift()) !== undefined;) request.fail(unsentError);
  }

  #sendWaiting(): void {
    // The client may answer at once, inside of this.
    if (this.#isSending) return;
    this.#isSending = true;
    try {
      while (this.#sent.size < MAX_SENT_REQUESTS) {
        const request = this.#waiting.shift();
        if (request === undefined) break;
        this.#send(request);
      }
    } finally {
      this.#isSending = false;
    }
  }

  #send(request: WindowedRequest): void {
    this.#sent.add(request);
    if (this.#sent.size === 1) this.#restart();
    request.send();
  }

  #restart(): void {
    this.#sinceMs = performance.now();
    // To set and clear a timer for each request would take as long as all else that is done for it.
    if (this.#timer === undefined) this.#wait(this.#listener.limitMs);
  }

  #wait(delayMs: number): void {
    // Waits one more turn of the event loop: if that was blocked, the socket may hold an answer.
    this.#timer = setTimeout(() => this.#timer = setTimeout(() => this.#check()), delayMs);
  }

  #check(): void {
    this.#timer = undefined;
    if (this.#sent.size === 0) return;
    const leftMs = this.#sinceMs + this.#listener.limitMs - performance.now();
    if (leftMs > 0) this.#wait(leftMs);
    else this.#listener.onOverdue();
  }
}
