/**
 * Finds out when a response of `node:http` is over. `response_hold.ts` then releases the lease.
 *
 * @module
 */

/** The parts of a response of `node:http` that are used. */
export interface NodeResponse {
  /** Ends the response; replaced to notice it. */
  end: (...args: never[]) => unknown;
  /** Listens for the end of the connection or response, and for a stream that is to fill it. */
  on(event: "close" | "pipe", listener: () => void): unknown;
  /** Breaks the connection. */
  destroy(): unknown;
  /** Whether the connection is closed. */
  readonly destroyed: boolean;
  /** Whether anything was sent. */
  readonly headersSent: boolean;
}

/** Is notified of the end of a response. */
export interface ResponseListener {
  /**
   * The response is about to be complete, or the client is gone. The last bytes are sent when the
   * returned promise has resolved.
   */
  responseOver(): Promise<void> | undefined;
}

/**
 * - `"open"`: there is no end yet;
 * - `"ending"`: `end()` was called and the listener is being notified: a loss can still break it off;
 * - `"delayed"`: the last bytes wait for the listener;
 * - `"complete"`: the last bytes were handed to the system;
 * - `"gone"`: the connection closed before the end.
 */
type WatchPhase = "open" | "ending" | "delayed" | "complete" | "gone";

/**
 * Watches one response. It is over right before its last bytes are handed to the system, or when the
 * client is gone.
 */
export class ResponseWatch {
  readonly #response: NodeResponse;
  readonly #gone = new AbortController();
  #phase: WatchPhase = "open";
  #isPiped = false;
  #listener: ResponseListener | null = null;

  constructor(response: NodeResponse) {
    this.#response = response;
    if (response.destroyed) this.#close();
    else response.on("close", () => this.#close());
    response.on("pipe", () => this.#isPiped = true);
    this.#replaceEnd();
  }

  /** Aborts if the client goes away before the response is complete. */
  get gone(): AbortSignal {
    return this.#gone.signal;
  }

  /** Whether it is too late for another response. */
  get hasBegun(): boolean {
    return this.#isPiped || this.#response.headersSent;
  }

  /** Sets the listener, and notifies it at once if the response is over. */
  listen(listener: ResponseListener): void {
    this.#listener = listener;
    if (this.#phase !== "open") listener.responseOver();
  }

  /** Breaks off a response that has begun: half of it must not look like all of it. */
  breakOff(): void {
    if (this.#phase === "delayed" || this.#phase === "complete") return;
    this.#response.destroy();
  }

  /**
   * Session middlewares do the same: no event comes *before* the client can have all of the response,
   * and a client that has all of it must find the lock free.
   */
  #replaceEnd(): void {
    const response = this.#response;
    const end = response.end;
    response.end = (...args) => {
      if (this.#phase === "delayed") return response;
      const delay = this.#end();
      if (delay === undefined) return end.apply(response, args);
      delay.then(() => {
        this.#phase = "complete";
        return end.apply(response, args);
      }).catch(() => response.destroy());
      return response;
    };
  }

  /** Notifies the listener of the end; returns what the last bytes must wait for. */
  #end(): Promise<void> | undefined {
    const isFirst = this.#phase === "open";
    if (isFirst) this.#phase = "ending";
    const delay = isFirst ? this.#listener?.responseOver() : undefined;
    this.#phase = delay === undefined ? "complete" : "delayed";
    return delay;
  }

  #close(): void {
    const isEarly = this.#phase === "open" || this.#phase === "ending";
    const isFirst = this.#phase === "open";
    if (!isEarly) return;
    this.#phase = "gone";
    this.#gone.abort(new DOMException("The client is gone", "AbortError"));
    if (isFirst) this.#listener?.responseOver();
  }
}
