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
  /** Whether `end()` was called. */
  readonly writableEnded?: boolean | undefined;
  /** The stream of a response over HTTP/2. */
  readonly stream?: {
    /** Resets the stream, which tells the client why it ends. */
    close(code: number): void;
    /** Whether the request is a HEAD request. */
    readonly headRequest?: boolean | undefined;
    /** Whether the stream is closed. */
    readonly destroyed: boolean;
  } | undefined;
  /** Whether the status and the headers were sent. */
  readonly headersSent: boolean;
}

/** Calls the listener once, when the client has disconnected or the response is over: at once if so. */
export function onClose(response: NodeResponse, listener: () => void): void {
  if (response.writableEnded || (response.stream?.destroyed ?? response.destroyed)) listener();
  else response.on("close", listener);
}

/** The options of Fastify's `register()`, which it passes on to a plugin. */
export const REGISTER_OPTIONS = {
  prefix: { default: undefined, check: () => {} },
  logLevel: { default: undefined, check: () => {} },
  logSerializers: { default: undefined, check: () => {} },
};
