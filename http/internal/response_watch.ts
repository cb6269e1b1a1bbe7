/**
 * When a response of `node:http` is over, for the frameworks that stand on it.
 *
 * @module
 */
import type { Lease } from "../../core/distributed_lock.ts";
import { giveBack } from "./work.ts";

/** What is used of a response of `node:http`. */
export interface NodeResponse {
  /** Ends the response; replaced to see it. */
  end: (...args: never[]) => unknown;
  /** Listens for its end, whatever it was, and for a stream that is to fill it. */
  on(event: "close" | "pipe", listener: () => void): unknown;
  /** Breaks the connection. */
  destroy(): unknown;
  /** Whether the connection is closed. */
  readonly destroyed: boolean;
  /** Whether anything was sent. */
  readonly headersSent: boolean;
}

/**
 * Watches one response. It is over right before its last bytes are handed to the system, or when the
 * client has gone.
 */
export class ResponseWatch {
  readonly #response: NodeResponse;
  readonly #gone = new AbortController();
  #isOver = false;
  #isComplete = false;
  #isPiped = false;
  #onOver: () => Promise<void> | undefined = () => undefined;

  constructor(response: NodeResponse) {
    this.#response = response;
    if (response.destroyed) this.#close();
    else response.on("close", () => this.#close());
    response.on("pipe", () => this.#isPiped = true);
    this.#watchEnd();
  }

  /** Aborts if the client goes away before the response is complete. */
  get gone(): AbortSignal {
    return this.#gone.signal;
  }

  /** Whether it is too late for another response. */
  get hasBegun(): boolean {
    return this.#isPiped || this.#response.headersSent;
  }

  /** Calls back when the response is over; at once if it is. Its end is sent after what is returned. */
  onOver(callback: () => Promise<void> | undefined): void {
    if (this.#isOver) callback();
    else this.#onOver = callback;
  }

  /** Breaks off a response that has begun: half of one must not look like a whole one. */
  breakOff(): void {
    if (!this.#isComplete) this.#response.destroy();
  }

  /**
   * As session middlewares do: there is no event *before* the client can have it all, and who has it
   * all must find the lock free.
   */
  #watchEnd(): void {
    const response = this.#response;
    const end = response.end;
    let isPending = false;
    const endNow = (args: never[]) => {
      isPending = false;
      return end.apply(response, args);
    };
    response.end = (...args) => {
      if (isPending) return response;
      const freed = this.#finish();
      this.#isComplete = true;
      if (freed === undefined) return endNow(args);
      isPending = true;
      freed.then(() => endNow(args)).catch(() => response.destroy());
      return response;
    };
  }

  #close(): void {
    if (!this.#isComplete) this.#gone.abort(new DOMException("The client is gone", "AbortError"));
    this.#finish();
  }

  #finish(): Promise<void> | undefined {
    if (this.#isOver) return undefined;
    this.#isOver = true;
    return this.#onOver();
  }
}

/** Turns that a handler has to end when its response is made; promises within promises take some. */
const WAKE_TURNS = 10;

/**
 * Holds a lease for a response: gives it back once, when both the response is over and no handler is
 * at work under it. A loss breaks off a response that has begun.
 */
export class ResponseHold {
  readonly lease: Lease;
  readonly #watch: ResponseWatch;
  readonly #onLost: () => void;
  #isWorking: boolean;
  #isOver = false;
  #isAnswered = false;
  #isSending = false;
  #endsWithAnswer = false;
  #wakes: (() => void)[] = [];
  #freed: Promise<void> | undefined;

  /**
   * @param isWorking Whether a handler is at work already; if not, none may come.
   * @param onLost Called if the lease is lost before the response has begun.
   */
  constructor(lease: Lease, watch: ResponseWatch, isWorking: boolean, onLost: () => void) {
    this.lease = lease;
    this.#watch = watch;
    this.#onLost = onLost;
    this.#isWorking = isWorking;
    watch.onOver(() => {
      if (watch.hasBegun) void lease.signal; // tells of a loss by the clock, before any timer has run
      this.#isOver = true;
      return this.#wakes.length > 0 && watch.hasBegun ? this.#wake() : this.#giveBack();
    });
    const { signal } = lease;
    if (signal.aborted) this.#lose();
    else signal.addEventListener("abort", this.#lose);
  }

  /** A handler begins. */
  work(): void {
    this.#isWorking = true;
  }

  /** The handler has ended. */
  done(): void {
    this.#isWorking = false;
    this.#giveBack();
  }

  /** The handler has returned and will answer later: it is at work until then. */
  doneWhenAnswered(): void {
    this.#endsWithAnswer = true;
    if (this.#isAnswered) this.done();
  }

  /** There will be a response: it is being made ready, or the handler writes it by itself. */
  answered(): void {
    this.#isAnswered = true;
    if (this.#endsWithAnswer) this.done();
  }

  /** Whether there will be a response, or is one. */
  get isAnswered(): boolean {
    return this.#isAnswered;
  }

  /** The response is made, or in the handler's hands: from now on a loss can only break it off. */
  sending(): void {
    this.#isSending = true;
  }

  /** Calls back when the response is made but not yet sent: the handler waits for it, perhaps to end. */
  beforeEnd(callback: () => void): void {
    this.#wakes.push(callback);
  }

  /** Only a handler that does not end by what it waited for is still at work. */
  async #wake(): Promise<void> {
    for (const wake of this.#wakes) wake();
    for (let turn = 0; turn < WAKE_TURNS && this.#isWorking; turn++) await null;
    await this.#giveBack();
  }

  readonly #lose = (): void => {
    if (this.#freed !== undefined) return;
    if (this.#watch.hasBegun || this.#isSending) this.#watch.breakOff();
    else if (!this.#isAnswered) this.#onLost();
  };

  #giveBack(): Promise<void> | undefined {
    if (this.#isWorking || !this.#isOver) return undefined;
    this.lease.signal.removeEventListener("abort", this.#lose);
    return this.#freed ??= giveBack(this.lease);
  }
}
