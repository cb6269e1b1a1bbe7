/**
 * The parts of Fastify that the lock service uses, as types: this module does not import Fastify.
 *
 * @module
 */
import type { Readable } from "node:stream";
import type { NodeResponse } from "../http/shared/server.ts";

/** The parts of a Fastify request that are used. */
export interface LockRoutesRequest {
  /** The `node:http` request, with the URL as the client sent it. */
  readonly raw: { readonly url?: string | undefined };
  /** The path of the route. */
  readonly routeOptions: { readonly url?: string | undefined };
  /** The headers. */
  readonly headers: Readonly<Record<string, string | string[] | undefined>>;
  /** The body as text, not parsed. */
  readonly body?: unknown;
}

/** The parts of a Fastify reply that are used. */
export interface LockRoutesReply {
  /** The `node:http` response. */
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
  /** Removes all body parsers. */
  removeAllContentTypeParsers(): unknown;
  /** Adds a body parser. */
  addContentTypeParser(
    type: string,
    options: { parseAs: "string" },
    parser: (
      request: LockRoutesRequest,
      body: string,
      done: (error: Error | null, body?: unknown) => void,
    ) => void,
  ): unknown;
  /** Adds a hook that runs before the server closes. */
  addHook(name: "preClose", hook: () => Promise<void>): unknown;
  /** Adds a hook that gets the body of a request before it is parsed, and returns what to parse. */
  addHook(
    name: "preParsing",
    hook: (
      request: LockRoutesRequest,
      reply: LockRoutesReply,
      payload: Readable,
    ) => Promise<Readable>,
  ): unknown;
  /** Sets the handler that turns errors into responses. */
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
