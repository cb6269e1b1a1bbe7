/**
 * Replies of Fastify: what tells when there will be an answer, and how one is put in its place.
 *
 * @module
 */
import type { NodeResponse, ResponseHold } from "./node_response.ts";
import { BODY_HEADERS, type Problem } from "./problem.ts";

/** What is used of a Fastify reply. */
export interface FastifyLockReply {
  /** The response of `node:http`. */
  readonly raw: NodeResponse & {
    /** Writes status and headers. */
    writeHead(status: number, headers: Record<string, string>): unknown;
    /** Ends it. */
    end(body: string): unknown;
  };
  /** Whether a response is under way. */
  readonly sent: boolean;
  /** Sets the status. */
  code(status: number): unknown;
  /** Sets headers. */
  headers(values: Record<string, string>): unknown;
  /** Sets a header. */
  header(name: string, value: string): unknown;
  /** Takes a header back. */
  removeHeader(name: string): unknown;
  /** The headers so far. */
  getHeaders(): Record<string, unknown>;
  /** Sends a response; replaced to see it. */
  send: (payload?: unknown) => unknown;
  /** Leaves the response to the handler; replaced to see it. */
  hijack: () => unknown;
  /** Waits until the response was sent; replaced, as handlers return their reply. */
  then: (onSent: () => void, onError: (error: Error) => void) => void;
}

/**
 * Without an answer Fastify makes one of what the handler ends with. One that is on its way is not yet
 * to be seen, and two would meet in the hooks.
 */
export async function endAfterAnswer(
  result: PromiseLike<unknown>,
  hold: ResponseHold,
  untilSent: () => Promise<void>,
): Promise<unknown> {
  try {
    return await result;
  } finally {
    if (hold.isAnswered) await untilSent();
  }
}

/**
 * Tells when there will be an answer: hooks may take their time before anything is sent.
 *
 * @returns What waits until it was sent.
 */
export function tellOfAnswer(reply: FastifyLockReply, hold: ResponseHold): () => Promise<void> {
  const { send, hijack, then } = reply;
  reply.send = (payload) => {
    const sent = send.call(reply, payload); // throws if a serializer does
    hold.answered();
    return sent;
  };
  reply.hijack = () => {
    hold.answered();
    hold.sending();
    return hijack.call(reply);
  };
  // A handler that returns its reply waits for the end, which waits for the handler.
  reply.then = (onSent, onError) => {
    let isTold = false;
    const once = <A extends unknown[]>(tell: (...args: A) => void) => (...args: A) => {
      if (isTold) return;
      isTold = true;
      tell(...args);
    };
    hold.beforeEnd(once(onSent));
    then.call(reply, once(onSent), once(onError));
  };
  return () => new Promise((resolve) => then.call(reply, resolve, () => resolve()));
}

/** Whether it can be awaited; replies can. */
export function isThenable(value: unknown): value is PromiseLike<unknown> {
  return typeof (value as PromiseLike<unknown> | undefined)?.then === "function";
}

/** Makes the reply a problem; returns its payload. */
export function prepare(reply: FastifyLockReply, { status, headers, body }: Problem): string {
  reply.code(status);
  for (const name of BODY_HEADERS) reply.removeHeader(name);
  reply.headers({ ...headers });
  return body;
}

/** Sends a problem past all hooks and whatever else may be answered meanwhile. */
export function sendNow(reply: FastifyLockReply, lost: Problem): void {
  const body = prepare(reply, lost);
  reply.header("content-length", String(body.length)); // it is ASCII
  reply.hijack();
  reply.raw.writeHead(lost.status, reply.getHeaders() as Record<string, string>);
  reply.raw.end(body);
}

/** A stream that will not be sent may stop. */
export function discard(payload: unknown): void {
  const source = payload instanceof Response ? payload.body : payload;
  if (source instanceof ReadableStream && !source.locked) source.cancel().catch(() => {});
  else (source as { destroy?: () => void } | null | undefined)?.destroy?.();
}
