/**
 * A response of `node:http` or `node:http2` whose request holds a lock. Node says too late when a response
 * is complete: after the client may have all of it. So `end()` is wrapped, as session middlewares do.
 *
 * The response is over when `end()` is called, or when the client disconnects. The lock is released once,
 * when the response is over *and* no handler runs:
 *
 * - If the response is over while the request waits for its lock, it need not wait any longer (`abandoned`).
 * - If it is over before the handler starts, the lock is released, and `startHandler()` refuses.
 * - If the handler has ended before, `end()` releases the lock, and the last bytes wait for that (1 s at
 *   most). If only the release finds that the lease was lost, the response is broken off.
 * - If the response is over first, the lock is held until the handler ends. The last bytes do not wait, except
 *   for a handler that waits for the end of its own response: it is notified before (`beforeEnd()`).
 * - If the lease is lost before that, after `maxHoldMs` for instance, a response that has begun or is
 *   ending is broken off. Otherwise the listener, of the framework, sends an error instead.
 *
 * @module
 */
import type { Lease } from "../../core/contract/distributed_lock.ts";
import type { LeaseLostError } from "../../core/contract/errors.ts";
import { type NodeResponse, onClose } from "../shared/server.ts";
import { type HoldSettings, report } from "./options.ts";
import { releaseInTime } from "./request.ts";

export interface LossListener {
  /** Nothing was sent yet: the listener can send an error instead. If it throws, the response is broken off. */
  onLeaseLost(isHandlerRunning: boolean): void;
}

/** The code of a reset that HTTP/2 clients take for a failure. After NO_ERROR, a part looks whole. */
const INTERNAL_ERROR = 2;
/** The statuses of responses without a body. */
const BODILESS: readonly number[] = [204, 205, 304];
/** How many microtask turns a handler that waits for the end of its own response gets, to end itself. */
const END_TURNS = 10;

/** One response, first watched, then held under a lease. */
export class LockedResponse {
  readonly #response: NodeResponse;
  readonly #closeConnection: () => unknown;
  readonly #abandoned = new AbortController();
  /**
   * Aborts if nobody awaits the handler's response any more: the client has disconnected before the response
   * ended, or the request was answered before it held the lock, by a time limit for instance.
   */
  readonly abandoned: AbortSignal = this.#abandoned.signal;
  /**
   * - `"open"`: the response has not ended, and the client is connected;
   * - `"ending"`: `end()` was called, and the lock is being looked at: `breakOff()` still works;
   * - `"delayed"`: the last bytes wait for the release;
   * - `"complete"`: the last bytes were passed to Node;
   * - `"gone"`: the connection closed before the response ended.
   */
  #state: "open" | "ending" | "delayed" | "complete" | "gone" = "open";
  #isPiped = false;
  /** Whether the headers were written, but are sent by `end()`. */
  #isWritten = false;
  #held: {
    readonly lease: Lease;
    readonly signal: AbortSignal;
    readonly settings: HoldSettings;
    readonly listener: LossListener;
  } | null = null;
  #isHandlerRunning = false;
  #released: Promise<LeaseLostError | null> | null = null;
  readonly #endCallbacks: (() => void)[] = [];

  constructor(response: NodeResponse, closeConnection = () => response.destroy()) {
    this.#response = response;
    this.#closeConnection = closeConnection;
    onClose(response, this.#onClosed);
    response.on("pipe", () => this.#isPiped = true);
    const { end } = response;
    response.end = (...args) => {
      if (this.#state === "delayed") return response;
      const delay = this.#delayEnd();
      this.#state = delay === null ? "complete" : "delayed";
      if (delay === null) return end.apply(response, args);
      delay.then((loss) => {
        this.#state = "complete";
        return loss === null ? end.apply(response, args) : this.#destroy();
      }).catch((error) => {
        report(this.#held!.settings, error);
        this.#destroy();
      });
      return response;
    };
    if (response.stream !== undefined) this.#delayHeaders(response.stream);
  }

  /** True once it is too late to send another response: it has ended or sent headers, or a stream is piped in. */
  get hasBegun(): boolean {
    if (this.#state === "delayed" || this.#state === "complete") return true;
    return this.#isPiped || this.#isWritten || this.#response.headersSent;
  }

  /**
   * The handler must not run before `startHandler()` has returned true. If the lease is lost already, the listener is
   * notified at once.
   */
  hold(lease: Lease, settings: HoldSettings, listener: LossListener): void {
    const { signal } = lease;
    this.#held = { lease, signal, settings, listener };
    if (this.#state !== "open") this.#release();
    if (signal.aborted) this.#onLost();
    else signal.addEventListener("abort", this.#onLost);
  }

  /**
   * Asks to start the handler: then the lock is held until `handlerEnded()`. False if it must not run: the
   * response is over, so the lock was released; or the lease is lost, of which the listener was notified.
   */
  startHandler(): boolean {
    if (this.#released !== null || this.#held!.lease.signal.aborted) return false;
    return this.#isHandlerRunning = true;
  }

  /** The release, which never rejects; `null` before it. Last bytes that wait for it are passed on first. */
  get released(): Promise<unknown> | null {
    return this.#released;
  }

  handlerEnded(): void {
    if (!this.#isHandlerRunning) return;
    this.#isHandlerRunning = false;
    if (this.#state !== "open") this.#release();
  }

  /** Adds a callback for a handler that waits for the end of its own response. */
  beforeEnd(callback: () => void): void {
    this.#endCallbacks.push(callback);
  }

  /** Closes the connection. Not if the last bytes wait for the release: that finds whether the lock was held. */
  breakOff(): void {
    if (this.#state !== "delayed" && this.#state !== "complete") this.#destroy();
  }

  #destroy(): void {
    const { stream } = this.#response;
    if (stream === undefined) this.#closeConnection();
    else stream.close(INTERNAL_ERROR);
  }

  /** `end()` is called. Returns what the last bytes must wait for, or `null` to send them at once. */
  #delayEnd(): Promise<LeaseLostError | null> | null {
    if (this.#state !== "open") return null;
    this.#state = "ending";
    if (this.#held === null) {
      this.#abandoned.abort(new DOMException("The request is answered already", "AbortError"));
      return null;
    }
    // Reading the signal reads the clock: a lease that has expired is lost now, even if no timer has
    // fired yet. Then the response is broken off, as it is too late for another one.
    void this.#held.lease.signal;
    if (!this.#isHandlerRunning) return this.#release();
    return this.hasBegun && this.#endCallbacks.length > 0 ? this.#awaitHandler() : null;
  }

  /** The connection closes: after a complete response, this changes nothing. */
  readonly #onClosed = (): void => {
    const isOver = this.#state !== "open";
    if (isOver && this.#state !== "ending") return;
    this.#state = "gone";
    this.#abandoned.abort(new DOMException("The client has disconnected", "AbortError"));
    if (!isOver && this.#held !== null && !this.#isHandlerRunning) this.#release();
  };

  /** Gives the handler a moment to end. If it does, the last bytes wait for the release. */
  async #awaitHandler(): Promise<LeaseLostError | null> {
    for (const callback of this.#endCallbacks) callback();
    for (let turn = 0; turn < END_TURNS && this.#released === null; turn++) await null;
    return await this.#released;
  }

  /**
   * Does not release: the lease is lost anyway. Never throws: as a listener of the signal, that
   * would end the process. Node may refuse a header of the handler, and other middleware may throw.
   */
  readonly #onLost = (): void => {
    if (this.#released !== null) return;
    const { listener, settings } = this.#held!;
    const isEnding = this.#state !== "open" && !this.abandoned.aborted;
    try {
      if (isEnding || this.hasBegun) this.breakOff();
      else listener.onLeaseLost(this.#isHandlerRunning);
    } catch (error) {
      report(settings, error);
      this.#destroy();
    }
  };

  #release(): Promise<LeaseLostError | null> {
    const { lease, signal, settings } = this.#held!;
    signal.removeEventListener("abort", this.#onLost);
    return this.#released = releaseInTime(lease, settings);
  }

  /**
   * Over HTTP/2 a response without a body ends with its headers: `writeHead()` must not send them, or the client has
   * the whole response before the lock is free. `end()` does, which may wait for the release.
   */
  #delayHeaders(stream: NonNullable<NodeResponse["stream"]>): void {
    const response = this.#response as unknown as {
      statusCode: number;
      setHeader(name: string, value: unknown): unknown;
      writeHead(status: number, ...rest: unknown[]): unknown;
    };
    const { writeHead } = response;
    response.writeHead = (status, ...rest) => {
      const headers = rest.at(-1);
      const isBodiless = stream.headRequest === true || BODILESS.includes(status);
      // `end()` itself calls `writeHead()`, without headers.
      if (
        !isBodiless || typeof headers !== "object" || headers === null || Array.isArray(headers)
      ) {
        return writeHead.call(response, status, ...rest);
      }
      this.#isWritten = true;
      response.statusCode = status;
      for (const [name, value] of Object.entries(headers)) response.setHeader(name, value);
      return response;
    };
  }
}
