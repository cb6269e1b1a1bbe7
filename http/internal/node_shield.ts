/**
 * Shields a response of Node from its handler once the answer is decided, where nothing says when
 * a handler ends: the handler can write on, but nobody sees it.
 *
 * Without it, a handler that writes after another answer would throw, or end the process by an `error` event that
 * nobody listens for. One that throws while its last bytes wait for the release would have its error page mixed in.
 *
 * @module
 */
import type { NodeResponse } from "../shared/server.ts";
import type { LockedResponse } from "./node_response.ts";
import { BODY_HEADERS, type Problem } from "../shared/problem.ts";

/** The parts of a response that are used. */
export interface ShieldedResponse extends NodeResponse {
  /** The status of the response. */
  statusCode: number;
  /** Writes the status and the headers. Middleware may replace it. */
  writeHead: (...args: never[]) => unknown;
  /** Sets a header. */
  setHeader(name: string, value: string): unknown;
  /** Removes a header. */
  removeHeader(name: string): unknown;
  /** Listens for the end of the response, and for streams that are piped into it. */
  on(event: "close" | "pipe" | "unpipe" | "finish", listener: () => void): unknown;
  /** Listens for the end of the response, before all other listeners. */
  prependListener(event: "finish", listener: () => void): unknown;
}

/** A method that does nothing. It calls its callback, as the handler may wait for that. */
function ignoring(result: (response: unknown) => unknown): PropertyDescriptor {
  return {
    configurable: true,
    writable: true,
    value(this: unknown, ...args: unknown[]) {
      const callback = args.at(-1);
      if (typeof callback === "function") queueMicrotask(() => callback());
      return result(this);
    },
  };
}

const RETURNS_RESPONSE = ignoring((response) => response);
const RETURNS_NOTHING = ignoring(() => undefined);

/** What the handler finds instead of the response's own methods while the shield is up. */
const IGNORED: PropertyDescriptorMap = {
  writeHead: RETURNS_RESPONSE,
  setHeader: RETURNS_RESPONSE,
  setHeaders: RETURNS_RESPONSE,
  appendHeader: RETURNS_RESPONSE,
  removeHeader: RETURNS_RESPONSE,
  addTrailers: RETURNS_NOTHING,
  flushHeaders: RETURNS_NOTHING,
  writeContinue: RETURNS_NOTHING,
  writeEarlyHints: RETURNS_NOTHING,
  writeProcessing: RETURNS_NOTHING,
  write: ignoring(() => true),
  end: RETURNS_RESPONSE,
};

const shields = new WeakMap<object, HandlerShield>();

/** Returns the shield of a response: all locks of a request share it. */
export function shieldOf(response: ShieldedResponse): HandlerShield {
  let shield = shields.get(response);
  if (shield === undefined) shields.set(response, shield = new HandlerShield(response));
  return shield;
}

/** The shield of one response. It must be made before a {@linkcode LockedResponse} of that response. */
export class HandlerShield {
  /** Closes the connection. The handler's own `destroy()` is taken for its end. */
  readonly destroy: () => unknown;
  readonly #response: ShieldedResponse;
  readonly #locked: LockedResponse[] = [];
  /** While the shield is up: the properties that it has added, and those of the response below them. */
  #raised: { readonly added: PropertyDescriptorMap; readonly own: PropertyDescriptorMap } | null =
    null;
  /** Whether the handler has called `end()`, though its last bytes may still wait, or was replaced. */
  #isDecided = false;
  /** Whether another answer was sent instead of the handler's, which may run on. */
  isReplaced = false;
  #pipes = 0;
  #isClosed: boolean;
  #isFinishing = false;

  constructor(response: ShieldedResponse) {
    this.#response = response;
    this.#isClosed = response.destroyed === true;
    const { end, destroy } = response;
    this.destroy = () => destroy.call(response);
    response.end = (...args) => {
      // The end itself needs the methods of the response. Middleware may send it later, with headers.
      this.#lower();
      const result = end.apply(response, args);
      if (!this.#isDecided) return result;
      if (response.headersSent) this.#raise();
      else response.on("finish", () => this.#raise());
      return result;
    };
    response.destroy = (...args: never[]) => {
      this.#handlerEnded();
      return destroy.apply(response, args);
    };
    // A stream that is piped into a response never ends it once the connection is closed: the handler has
    // left its answer to the stream, so that is the end of both.
    response.on("pipe", () => {
      this.#pipes++;
      if (this.#isClosed) this.#handlerEnded();
    });
    response.on("unpipe", () => this.#pipes--);
    response.on("close", () => {
      this.#isClosed = true;
      if (this.#pipes > 0) this.#handlerEnded();
    });
  }

  /** Adds a response that gets to know when its handler has ended, as far as the shield can tell. */
  add(locked: LockedResponse): void {
    this.#locked.push(locked);
  }

  /** The handler has answered: nothing that it does from now on changes the response. */
  answered(): void {
    if (this.#isDecided) return;
    this.#isDecided = true;
    this.#raise();
  }

  /** Sends another answer instead of the handler's, which is cut off even if that fails. */
  replace(send: () => void): void {
    this.#lower();
    this.#isDecided = true;
    this.isReplaced = true;
    this.#response.prependListener("finish", () => {
      this.#isFinishing = true;
      queueMicrotask(() => this.#isFinishing = false);
    });
    try {
      send();
    } finally {
      this.#raise();
    }
  }

  #handlerEnded(): void {
    for (const locked of this.#locked) locked.handlerEnded();
  }

  #raise(): void {
    if (this.#raised !== null) return;
    const response: ShieldedResponse & { statusMessage?: string } = this.#response;
    const { statusCode, statusMessage } = response;
    const ignored = { configurable: true, enumerable: true, set() {} };
    const added = {
      ...IGNORED,
      statusCode: { ...ignored, get: () => statusCode },
      statusMessage: { ...ignored, get: () => statusMessage },
      ...this.isReplaced && this.#replaced(),
    };
    const own: PropertyDescriptorMap = {};
    for (const name in added) {
      const descriptor = Object.getOwnPropertyDescriptor(response, name);
      if (descriptor !== undefined) own[name] = descriptor;
    }
    this.#raised = { added, own };
    Object.defineProperties(response, added);
  }

  #lower(): void {
    if (this.#raised === null) return;
    const { added, own } = this.#raised;
    for (const name in added) Reflect.deleteProperty(this.#response, name);
    Object.defineProperties(this.#response, own);
    this.#raised = null;
  }

  /** What differs after another answer: the end of the handler is its own, and must be noticed. */
  #replaced(): PropertyDescriptorMap {
    const ends = ignoring((response) => {
      this.#handlerEnded();
      return response;
    });
    return {
      end: ends,
      destroy: ends,
      // If it were true, Express would close the connection on an error of the handler, with our answer
      // on it, or the next request. But loggers read it when the response has finished.
      headersSent: { configurable: true, get: () => this.#isFinishing },
    };
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
  response.setHeader("content-length", String(new TextEncoder().encode(body).length));
  return body;
}
