/**
 * Shields a response of `node:http` from its handler once the answer is decided, where nothing says when
 * a handler ends: the handler can write on, but nobody sees it. Leases are in `express_hold.ts`.
 *
 * @module
 */
import type { NodeResponse } from "./response_watch.ts";

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

/** Is notified when the handler of a response has ended, as far as that can be known. */
export interface HandlerEndListener {
  /** The handler has given up its response. Also called more than once. */
  handlerEnded(): void;
}

/**
 * - `"open"`: the handler has not answered;
 * - `"answered"`: the handler has called `end()`; its last bytes may still wait;
 * - `"replaced"`: another answer was sent instead of the handler's, which may run on.
 */
type ShieldState = "open" | "answered" | "replaced";

/** Methods that change what was decided, and return the response. */
const CHAINED = ["writeHead", "setHeader", "setHeaders", "appendHeader", "removeHeader"] as const;
/** The same, with no result. */
const VOID = [
  ...["addTrailers", "flushHeaders", "writeContinue", "writeEarlyHints", "writeProcessing"],
] as const;

const shields = new WeakMap<object, HandlerShield>();

/** Returns the shield of a response: all locks of a request share it. */
export function shieldOf(response: ShieldedResponse): HandlerShield {
  let shield = shields.get(response);
  if (shield === undefined) shields.set(response, shield = new HandlerShield(response));
  return shield;
}

/**
 * The shield of one response. It must be made before a `ResponseWatch` of that response.
 *
 * Without it, a handler that writes after another answer was sent would throw, or end the process by an
 * `error` event that nobody listens for. And one that throws while its own last bytes wait for the release
 * would have its error page mixed into them.
 */
export class HandlerShield {
  /** Closes the connection. The handler's own `destroy()` is taken for its end. */
  readonly destroy: () => unknown;
  readonly #response: ShieldedResponse;
  readonly #listeners: HandlerEndListener[] = [];
  /** The properties below the shield while it is up. */
  #covered: Map<string, PropertyDescriptor | undefined> | null = null;
  #state: ShieldState = "open";
  #pipes = 0;
  #isClosed: boolean;
  #isFinishing = false;

  constructor(response: ShieldedResponse) {
    this.#response = response;
    this.#isClosed = response.destroyed === true;
    const { end, destroy } = response;
    this.destroy = () => destroy.call(response);
    response.end = (...args) => this.#sendEnd(() => end.apply(response, args));
    response.destroy = (...args: never[]) => {
      this.#notify();
      return destroy.apply(response, args);
    };
    this.#watchPipes();
  }

  /** Whether another answer was sent instead of the handler's. */
  get isReplaced(): boolean {
    return this.#state === "replaced";
  }

  /** Adds a listener for the end of the handler. */
  onHandlerEnd(listener: HandlerEndListener): void {
    this.#listeners.push(listener);
  }

  /** The handler has answered: nothing that it does from now on changes the response. */
  answered(): void {
    if (this.#state !== "open") return;
    this.#state = "answered";
    this.#raise();
  }

  /** Sends another answer instead of the handler's. */
  replace(send: () => void): void {
    this.#lower();
    this.#state = "replaced";
    this.#response.prependListener("finish", () => {
      this.#isFinishing = true;
      queueMicrotask(() => this.#isFinishing = false);
    });
    send();
    this.#raise();
  }

  /** Below the shield, the end is sent as if there were none. Middleware may do so later, with headers. */
  #sendEnd(send: () => unknown): unknown {
    this.#lower();
    const result = send();
    if (this.#state === "open") return result;
    if (this.#response.headersSent) this.#raise();
    else this.#response.on("finish", () => this.#raise());
    return result;
  }

  /**
   * A stream that is piped into a response never ends it once the connection is closed: the handler has
   * left its answer to the stream, so that is the end of both.
   */
  #watchPipes(): void {
    const response = this.#response;
    response.on("pipe", () => {
      this.#pipes++;
      if (this.#isClosed) this.#notify();
    });
    response.on("unpipe", () => this.#pipes--);
    response.on("close", () => {
      this.#isClosed = true;
      if (this.#pipes > 0) this.#notify();
    });
  }

  #notify(): void {
    for (const listener of this.#listeners) listener.handlerEnded();
  }

  #raise(): void {
    if (this.#covered !== null) return;
    const covered = this.#covered = new Map<string, PropertyDescriptor | undefined>();
    for (const [name, descriptor] of Object.entries(this.#shadows())) {
      covered.set(name, Object.getOwnPropertyDescriptor(this.#response, name));
      Object.defineProperty(this.#response, name, { configurable: true, ...descriptor });
    }
  }

  #lower(): void {
    for (const [name, descriptor] of this.#covered ?? []) {
      if (descriptor === undefined) Reflect.deleteProperty(this.#response, name);
      else Object.defineProperty(this.#response, name, descriptor);
    }
    this.#covered = null;
  }

  /** The properties that the handler finds while the shield is up. */
  #shadows(): Record<string, PropertyDescriptor> {
    const response = this.#response;
    const { statusCode, statusMessage } = response as {
      statusCode: number;
      statusMessage?: string;
    };
    const ignored = { set() {}, enumerable: true };
    const method = (value: (...args: unknown[]) => unknown) => ({ value, writable: true });
    const end = (...args: unknown[]) => {
      if (this.isReplaced) this.#notify();
      callBack(args);
      return response;
    };
    return {
      ...Object.fromEntries(CHAINED.map((name) => [name, method(() => response)])),
      ...Object.fromEntries(VOID.map((name) => [name, method(() => {})])),
      write: method((...args) => (callBack(args), true)),
      end: method(end),
      statusCode: { get: () => statusCode, ...ignored },
      statusMessage: { get: () => statusMessage, ...ignored },
      ...this.isReplaced && {
        destroy: method(end),
        // If it were true, Express would close the connection on an error of the handler, with our answer
        // on it, or the next request. But loggers read it when the response has finished.
        headersSent: { get: () => this.#isFinishing },
      },
    };
  }
}

/** Calls the callback of a write that is ignored: the handler may wait for it. */
function callBack(args: readonly unknown[]): void {
  const callback = args.at(-1);
  if (typeof callback === "function") queueMicrotask(() => callback());
}
