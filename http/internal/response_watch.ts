/**
 * Detects when a response of `node:http` or `node:http2` is over, and can delay its last bytes. It knows no lease:
 * `response_hold.ts` decides when the lock is released.
 *
 * @module
 */

/** The parts of a response of `node:http` or `node:http2` that are used. */
export interface NodeResponse {
  /** Sends the last bytes. Replaced in order to notice the end of the response and to delay it. */
  end: (...args: never[]) => unknown;
  /** Listens for the close of the response or its connection, and for a stream piped into it. */
  on(event: "close" | "pipe", listener: () => void): unknown;
  /** Closes the connection. May be replaced in order to notice it. */
  destroy: (...args: never[]) => unknown;
  /** Whether the connection is closed. Over HTTP/2 it is `undefined`, and that of the stream counts. */
  readonly destroyed?: boolean | undefined;
  /** The stream of a response over HTTP/2. */
  readonly stream?: NodeStream | undefined;
  /** Whether the status and the headers were sent. */
  readonly headersSent: boolean;
}

/** The parts of the stream of a response over HTTP/2 that are used. */
export interface NodeStream {
  /** Resets the stream, which tells the client why it ends. */
  close(code: number): void;
  /** Whether the request is a HEAD request. */
  readonly headRequest?: boolean | undefined;
  /** Whether the stream is closed. */
  readonly destroyed: boolean;
}

/** The code of a reset that HTTP/2 clients take for a failure. After NO_ERROR, a part looks whole. */
const INTERNAL_ERROR = 2;

/** Is notified when a response is over. */
export interface ResponseListener {
  /**
   * The last bytes of the response are about to be sent, or the client has disconnected.
   *
   * @returns A promise that the last bytes must wait for; `undefined` to send them at once.
   */
  responseOver(): Promise<void> | undefined;
}

/** The parts of a response over HTTP/2 by which it can end with its headers. */
interface Http2Response {
  readonly stream: NodeStream;
  statusCode: number;
  setHeader(name: string, value: unknown): unknown;
  writeHead(status: number, ...rest: unknown[]): unknown;
}

/** The statuses of responses without a body. */
const BODILESS: readonly number[] = [204, 205, 304];

/**
 * - `"open"`: the response has not ended, and the client is connected;
 * - `"ending"`: `end()` was called and the listener is being notified: `breakOff()` still works;
 * - `"delayed"`: the last bytes wait for the listener's promise;
 * - `"complete"`: the last bytes were passed to Node;
 * - `"gone"`: the connection closed before the response ended.
 */
type WatchPhase = "open" | "ending" | "delayed" | "complete" | "gone";

/**
 * Watches one response, and notifies its listener once when the response is over: right before its
 * last bytes are sent, or when the client disconnects.
 */
export class ResponseWatch {
  readonly #response: NodeResponse;
  readonly #closeConnection: () => unknown;
  readonly #gone = new AbortController();
  #phase: WatchPhase = "open";
  #isPiped = false;
  /** Whether the headers were written, but are sent by `end()`. */
  #isWritten = false;
  #listener: ResponseListener | null = null;

  /** @param closeConnection Closes the connection; by default the response's own `destroy()`. */
  constructor(
    response: NodeResponse,
    closeConnection: () => unknown = () => response.destroy(),
  ) {
    this.#response = response;
    this.#closeConnection = closeConnection;
    if (response.stream?.destroyed ?? response.destroyed) this.#close();
    else response.on("close", () => this.#close());
    response.on("pipe", () => this.#isPiped = true);
    this.#replaceEnd();
    if (response.stream !== undefined) this.#delayHeaders(response as unknown as Http2Response);
  }

  /** Aborts if the client disconnects before the response ends. */
  get gone(): AbortSignal {
    return this.#gone.signal;
  }

  /** True once it is too late to send another response: headers were sent, or a stream is piped in. */
  get hasBegun(): boolean {
    return this.#isPiped || this.#isWritten || this.#response.headersSent;
  }

  /** Sets the listener, and notifies it at once if the response is over. */
  listen(listener: ResponseListener): void {
    this.#listener = listener;
    if (this.#phase !== "open") listener.responseOver();
  }

  /**
   * Closes the connection in the middle of a response: the client must not take a part for the whole.
   * Does nothing once the last bytes were sent or wait for the release: the lock was held up to the end.
   */
  breakOff(): void {
    if (this.#phase === "delayed" || this.#phase === "complete") return;
    this.#destroy();
  }

  #destroy(): void {
    const { stream } = this.#response;
    if (stream === undefined) this.#closeConnection();
    else stream.close(INTERNAL_ERROR);
  }

  /**
   * Wraps `end()`, as session middlewares do: a client that has the whole response must find the lock
   * free, and Node has no event that comes *before* the client can have it.
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
      }).catch(() => this.#destroy());
      return response;
    };
  }

  /** Notifies the listener the first time; returns the promise that the last bytes must wait for. */
  #end(): Promise<void> | undefined {
    const isFirst = this.#phase === "open";
    if (isFirst) this.#phase = "ending";
    const delay = isFirst ? this.#listener?.responseOver() : undefined;
    this.#phase = delay === undefined ? "complete" : "delayed";
    return delay;
  }

  /** The connection closes: after a complete response, this changes nothing. */
  #close(): void {
    const isEarly = this.#phase === "open" || this.#phase === "ending";
    const isFirst = this.#phase === "open";
    if (!isEarly) return;
    this.#phase = "gone";
    this.#gone.abort(new DOMException("The client has disconnected", "AbortError"));
    if (isFirst) this.#listener?.responseOver();
  }

  /**
   * Over HTTP/2 a response without a body ends with its headers: `writeHead()` must not send them, or
   * the client has the whole response before the lock is free. `end()` sends them.
   */
  #delayHeaders(response: Http2Response): void {
    const { writeHead, stream } = response;
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
