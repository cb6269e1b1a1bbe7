/**
 * The parts of Fastify that the lock service uses.
 *
 * @module
 */
import type { NodeResponse } from "../http/internal/response_watch.ts";

/** The parts of a Fastify request that are used. */
export interface LockRoutesRequest {
  /** The request of `node:http`, with the URL as it came. */
  readonly raw: { readonly url?: string | undefined };
  /** The route's own path. */
  readonly routeOptions: { readonly url?: string | undefined };
  /** The headers. */
  readonly headers: Readonly<Record<string, string | string[] | undefined>>;
  /** The body, as text. */
  readonly body?: unknown;
}

/** The parts of a Fastify reply that are used. */
export interface LockRoutesReply {
  /** The response of `node:http`. */
  readonly raw: NodeResponse;
  /** Sets the status. */
  code(status: number): unknown;
  /** Sets headers. */
  headers(values: Record<string, string>): unknown;
  /** Sends a response. */
  send(payload?: unknown): unknown;
}

/** The parts of a Fastify instance that are used. */
export interface LockRoutesApp {
  /** Removes the parsers of bodies. */
  removeAllContentTypeParsers(): unknown;
  /** Adds a parser of bodies. */
  addContentTypeParser(
    type: string,
    options: { parseAs: "string" },
    parser: (
      request: LockRoutesRequest,
      body: string,
      done: (error: Error | null, body?: unknown) => void,
    ) => void,
  ): unknown;
  /** Listens for the end of the server. */
  addHook(name: "preClose", hook: () => Promise<void>): unknown;
  /** Sets what answers errors. */
  setErrorHandler(
    handler: (error: unknown, request: LockRoutesRequest, reply: LockRoutesReply) => unknown,
  ): unknown;
  /** Adds a route. */
  route(options: {
    method: "PUT" | "PATCH" | "DELETE" | "GET" | "POST";
    url: string;
    bodyLimit: number;
    handler: (request: LockRoutesRequest, reply: LockRoutesReply) => unknown;
  }): unknown;
}
