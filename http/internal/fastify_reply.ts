/**
 * The parts of a Fastify reply that are used, and how a problem is sent with it. Leases and locks are
 * in `fastify_hold.ts`.
 *
 * @module
 */
import { BODY_HEADERS, type Problem } from "./problem.ts";
import type { NodeResponse } from "./response_watch.ts";

/** The parts of a Fastify reply that are used. */
export interface FastifyLockReply {
  /** The `node:http` response. */
  readonly raw: NodeResponse & {
    /** Writes the status and the headers. */
    writeHead(status: number, headers: Record<string, string>): unknown;
    /** Sends the body and ends the response. */
    end(body: string): unknown;
  };
  /** Whether a response has been sent or is being sent. */
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
  /** Sends a response. Replaced in order to notice the handler's answer. */
  send: (payload?: unknown) => unknown;
  /** Leaves the response to the handler. Replaced in order to notice it. */
  hijack: () => unknown;
  /** Waits until the response was sent. Replaced, since handlers may return or await their reply. */
  then: (onSent: () => void, onError: (error: Error) => void) => void;
}

/** Sets the status and the headers of a problem on the reply, and returns the payload to send. */
export function toProblem(reply: FastifyLockReply, { status, headers, body }: Problem): string {
  reply.code(status);
  for (const name of BODY_HEADERS) reply.removeHeader(name);
  reply.headers({ ...headers });
  return body;
}

/** Sends a problem at once, without hooks. Hijacks the reply, so that a later answer is ignored. */
export function sendNow(reply: FastifyLockReply, problem: Problem): void {
  const body = toProblem(reply, problem);
  reply.header("content-length", String(body.length)); // all characters are ASCII
  reply.hijack();
  reply.raw.writeHead(problem.status, reply.getHeaders() as Record<string, string>);
  reply.raw.end(body);
}

/** Cancels a stream that is not sent. */
export function discard(payload: unknown): void {
  const source = payload instanceof Response ? payload.body : payload;
  if (source instanceof ReadableStream && !source.locked) source.cancel().catch(() => {});
  else (source as { destroy?: () => void } | null | undefined)?.destroy?.();
}
