/**
 * Replies of Fastify, and how a problem is answered with one.
 *
 * @module
 */
import { BODY_HEADERS, type Problem } from "./problem.ts";
import type { NodeResponse } from "./response_watch.ts";

/** The parts of a Fastify reply that are used. */
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
  /** Removes a header. */
  removeHeader(name: string): unknown;
  /** The headers so far. */
  getHeaders(): Record<string, unknown>;
  /** Sends a response; replaced to notice it. */
  send: (payload?: unknown) => unknown;
  /** Leaves the response to the handler; replaced to notice it. */
  hijack: () => unknown;
  /** Waits until the response was sent; replaced, as handlers return their reply. */
  then: (onSent: () => void, onError: (error: Error) => void) => void;
}

/** Turns the reply into a problem; returns its payload. */
export function toProblem(reply: FastifyLockReply, { status, headers, body }: Problem): string {
  reply.code(status);
  for (const name of BODY_HEADERS) reply.removeHeader(name);
  reply.headers({ ...headers });
  return body;
}

/** Sends a problem without the hooks, whatever the handler answers at the same time. */
export function sendNow(reply: FastifyLockReply, problem: Problem): void {
  const body = toProblem(reply, problem);
  reply.header("content-length", String(body.length)); // it is ASCII
  reply.hijack();
  reply.raw.writeHead(problem.status, reply.getHeaders() as Record<string, string>);
  reply.raw.end(body);
}

/** Stops a stream that will not be sent. */
export function discard(payload: unknown): void {
  const source = payload instanceof Response ? payload.body : payload;
  if (source instanceof ReadableStream && !source.locked) source.cancel().catch(() => {});
  else (source as { destroy?: () => void } | null | undefined)?.destroy?.();
}
