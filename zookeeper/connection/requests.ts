import type { Socket } from "node:net";
import { LinkedSet } from "../../core/lease/linked_set.ts";
import { refusalOf, type ZooKeeperError } from "./failures.ts";
import type { TransportOptions, TransportState } from "./transport.ts";
import { ProtocolError, type Replies, type Request, XID_AT } from "./wire.ts";

/**
 * Maximum number of requests that are sent and unanswered. A heartbeat is answered after all of them, so this bounds
 * how long it takes, and how much work one chunk of answers makes. It is enough for 5,000 requests a second at a
 * round trip of 50 ms.
 */
const MAX_SENT_REQUESTS = 256;
/** The time without an answer is measured in so many steps, in which a blocked event loop shows. */
const STEPS = 4;
const MAX_XID = 2 ** 31 - 1;

interface Pending {
  readonly request: Request<unknown>;
  xid: number;
  resolve(answer: unknown): void;
  reject(error: ZooKeeperError): void;
}

export interface RequestsListener {
  readonly state: TransportState;
  /** How long in ms the server may leave requests without any answer. */
  readonly limitMs: number;
  notConnected(): ZooKeeperError;
  /** There was no answer for so long. Must not throw. */
  onOverdue(): void;
}

/**
 * Sends requests in the order of the calls. The server answers in that order, so each answer restarts the
 * deadline of all: a request behind many others is not overdue while those are answered. One timer serves
 * all requests: to set and clear one for each would take as long as all else that is done for it.
 */
export class Requests {
  socket: Socket | undefined;
  /**
   * The number of the last request. Numbers begin at 1: a server before 3.8 treats request 0 as pending
   * forever. The server only returns them, so they may begin again.
   */
  xid = 0;
  readonly #listener: RequestsListener;
  #sent: Pending[] = [];
  #waiting = new LinkedSet<Pending>();
  #isGathering = false;
  /** The last answer, or the first unanswered request if that is later; in monotonic ms. */
  #sinceMs = 0;
  /** May fire long after the last answer, which has no effect then. */
  #timer: ReturnType<typeof setTimeout> | undefined;
  /** The last request whose deadline was postponed. */
  #postponed: Pending | undefined;

  constructor(listener: RequestsListener) {
    this.#listener = listener;
  }

  /** Sends a request: an urgent one at once, others once fewer than `MAX_SENT_REQUESTS` are unanswered. */
  send<T>(request: Request<T>, isUrgent = false): Promise<T> {
    if (this.#listener.state !== "connected") return Promise.reject(this.#listener.notConnected());
    const { promise, resolve, reject } = Promise.withResolvers<T>();
    const pending = { request, xid: 0, resolve: resolve as Pending["resolve"], reject };
    if (isUrgent || this.#sent.length < MAX_SENT_REQUESTS) this.#write(pending);
    else this.#waiting.add(pending);
    return promise;
  }

  /** Answers the oldest request. Throws a `ProtocolError` for another's reply, or one that cannot be read. */
  answer(reply: Replies): void {
    const pending = this.#sent[0];
    const { xid, code } = reply;
    if (pending?.xid !== xid) {
      const expected = pending?.xid ?? "none";
      throw new ProtocolError(`A reply is for request ${xid} instead of ${expected}`);
    }
    if (code === 0) pending.resolve(pending.request.read(reply));
    else pending.reject(refusalOf(code));
    this.#sent.shift();
    this.#sinceMs = performance.now();
    // Others wait only while so many are sent. None may follow the request that ends the session.
    if (this.#sent.length !== MAX_SENT_REQUESTS - 1 || this.#listener.state !== "connected") return;
    const next = this.#waiting.shift();
    if (next !== undefined) this.#write(next);
  }

  /** Fails all requests. One that was not sent has no effect, so its caller need not ask whether it had. */
  failAll(error: ZooKeeperError): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    const unsentError = error.meaning.isAmbiguous ? this.#listener.notConnected() : error;
    const [sent, waiting] = [this.#sent, this.#waiting];
    this.#sent = [];
    this.#waiting = new LinkedSet();
    for (const { reject } of sent) reject(error);
    for (const { reject } of waiting) reject(unsentError);
  }

  /**
   * Gives the oldest request, whose answer is arriving, the whole time once more; `false` if it had that before: a
   * server may send byte by byte forever.
   */
  postpone(): boolean {
    if (this.#sent[0] === this.#postponed) return false;
    this.#postponed = this.#sent[0];
    this.#startTime();
    return true;
  }

  #startTime(): void {
    this.#sinceMs = performance.now();
    if (this.#timer === undefined) this.#wait();
  }

  #write(pending: Pending): void {
    const { bytes } = pending.request;
    pending.xid = this.xid = this.xid === MAX_XID ? 1 : this.xid + 1;
    bytes.writeInt32BE(pending.xid, XID_AT);
    this.#sent.push(pending);
    if (this.#sent.length === 1) this.#startTime();
    if (!this.#isGathering) this.#gather();
    this.socket!.write(bytes);
  }

  /** Makes the requests of this turn leave together: each packet costs time. */
  #gather(): void {
    this.#isGathering = true;
    const socket = this.socket!;
    socket.cork();
    queueMicrotask(() => {
      this.#isGathering = false;
      socket.uncork();
    });
  }

  #wait(): void {
    const { limitMs } = this.#listener;
    const nowMs = performance.now();
    const leftMs = Math.max(0, this.#sinceMs + limitMs - nowMs);
    const delayMs = Math.min(leftMs, limitMs / STEPS);
    this.#timer = setTimeout(() => this.#check(nowMs + delayMs), delayMs);
  }

  /** @param dueMs When the timer was to fire. Left out, it is the last check. */
  #check(dueMs?: number): void {
    this.#timer = undefined;
    if (this.#sent.length === 0) return;
    const nowMs = performance.now();
    // For so long the event loop was blocked: requests did not leave, and answers were not read.
    const blockedMs = dueMs === undefined ? 0 : Math.max(0, nowMs - dueMs);
    this.#sinceMs = Math.min(nowMs, this.#sinceMs + blockedMs);
    if (nowMs - this.#sinceMs < this.#listener.limitMs) this.#wait();
    else if (dueMs === undefined) this.#listener.onOverdue();
    // Waits one more turn of the event loop: the socket may hold an answer.
    else this.#timer = setTimeout(() => this.#check());
  }
}

/** How long in ms the server may leave requests without any answer. */
export function requestLimitMs(options: TransportOptions, sessionTimeoutMs: number): number {
  const { requestTimeoutMs, unavailableAfterMs } = options;
  return requestTimeoutMs ?? Math.ceil(Math.min(sessionTimeoutMs / 4, unavailableAfterMs / 2));
}
