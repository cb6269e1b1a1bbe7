/**
 * A lock service over HTTP, for clients in other languages.
 *
 * @module
 */
import type { AttachableLock, DistributedLock } from "../core/distributed_lock.ts";
import { checkDuration, checkTtl } from "../core/validate.ts";
import { actions } from "./lock_actions.ts";
import type { Limits } from "../http/internal/lock_request.ts";
import { problemOf } from "../http/internal/request_error.ts";
import type { NodeResponse } from "../http/internal/node_response.ts";
import type { Problem } from "../http/internal/problem.ts";

/** Who asks for what, as `authorize` gets it. */
export interface Authorization {
  /** What is asked for. */
  readonly action: "acquire" | "renew" | "release" | "query";
  /** The name of the lock. */
  readonly key: string;
}

/** Options of {@linkcode lockRoutes}. */
export interface LockRoutesOptions {
  /** A strategy that can attach: Redis. */
  lock: DistributedLock;
  /**
   * Says who a request comes from: a tenant, a user, a service. Whatever names this *principal* is part
   * of the owner of its locks, so that a lock's `id`, which stands in access logs, is worth nothing to
   * others. `null` refuses the request (403). An error with a `statusCode` below 500 is told to the
   * client, with its `message` and `headers`; any other is a 500. Locks are common to all principals:
   * look at `authorization.key` if not everybody may have every lock. Without this hook the plugin
   * refuses to register.
   */
  authorize(
    request: LockRoutesRequest,
    authorization: Authorization,
  ): string | null | Promise<string | null>;
  /**
   * The TTL in ms of a lease whose client asks for none; never more than `maxTtlMs`.
   *
   * @default {30000}
   */
  defaultTtlMs?: number;
  /**
   * The longest TTL in ms that a client may ask for.
   *
   * @default {300000}
   */
  maxTtlMs?: number;
  /**
   * The longest time in ms that a client may wait for a lock.
   *
   * @default {30000}
   */
  maxWaitMs?: number;
  /**
   * Gets the error behind each 500 and 503, for your logs, unless the server closes. Responses tell
   * nothing of it.
   */
  onError?: (error: unknown) => void;
}

/** What is used of a Fastify request. */
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

/** What is used of a Fastify reply. */
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

/** What is used of a Fastify instance. */
export interface LockRoutesApp {
  /** Forgets how bodies are parsed. */
  removeAllContentTypeParsers(): unknown;
  /** Says how bodies are parsed. */
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
  /** Says what becomes of errors. */
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

/** Default of {@linkcode LockRoutesOptions.defaultTtlMs}. */
export const DEFAULT_LEASE_TTL_MS = 30_000;
/** Default of {@linkcode LockRoutesOptions.maxTtlMs}. */
export const DEFAULT_MAX_TTL_MS = 300_000;
/** Default of {@linkcode LockRoutesOptions.maxWaitMs}. */
export const DEFAULT_MAX_WAIT_MS = 30_000;
/** What a body may take. */
const BODY_LIMIT = 4_096;

/**
 * A plugin: a lock service. `PUT /lock/:key/:id` takes a lock (200 with `fencingToken`, a string, and
 * `remainingMs`; or 409 with the holder's `remainingMs` and `Retry-After`), `PATCH` renews it, `DELETE`
 * gives it back, both only under the same `:id` (else 404), and `GET /lock/:key` tells whether it is
 * held and how many wait. Bodies are JSON: `ttlMs` for `PUT` and `PATCH`, `waitMs` for `PUT`, both whole
 * numbers of ms. All refusals are `application/problem+json`: 400 for what a client must not repeat, 503
 * if it is not known whether anything was done.
 *
 * Leases belong to the caller, not to this process: they end by their TTL unless they are renewed, and
 * outlive the server; another one that uses the same Redis goes on with them, under a greater token. The
 * owner of a lease is the principal that `authorize` names together with `:id`. All requests can be
 * repeated: a `PUT` whose answer was lost is answered again, and a `DELETE` that is answered 404 has
 * nothing left to release. A key may have all the 1,000 characters of a lock's name, percent-encoded; an
 * id is 1 to 128 of `A-Z a-z 0-9 . _ ~ -`.
 *
 * @param app The instance; routes are below its prefix.
 * @param options The lock, who may use it, and limits.
 * @throws {TypeError} If there is no `authorize`, or if the lock cannot attach.
 * @throws {RangeError} If a limit is bad.
 */
// deno-lint-ignore require-await -- Fastify takes plugins that are async, or call back
export async function lockRoutes(
  app: LockRoutesApp,
  options: LockRoutesOptions,
): Promise<void> {
  const { lock, authorize, limits, report } = readOptions(options);
  const closing = new AbortController();
  // deno-lint-ignore require-await -- hooks are async, or call back
  app.addHook("preClose", async () => closing.abort());
  app.removeAllContentTypeParsers();
  app.addContentTypeParser("*", { parseAs: "string" }, (_request, body, done) => done(null, body));
  app.setErrorHandler((error, _request, reply) => answer(reply, problemOf(error, report)));
  for (const [method, action] of Object.entries(actions)) {
    app.route({
      method: method as keyof typeof actions,
      // Not ":key", which Fastify limits to 100 characters and decodes before we can split.
      url: "/lock/*",
      bodyLimit: BODY_LIMIT,
      async handler(request, reply) {
        const body = await action({
          lock,
          request,
          response: reply.raw,
          limits,
          closing: closing.signal,
          authorize: (authorization) => authorize(request, authorization),
        });
        reply.headers({ "cache-control": "no-store" });
        return reply.send(body);
      },
    });
  }
}

/** What the plugin works with. */
interface Settings {
  readonly lock: AttachableLock;
  readonly authorize: LockRoutesOptions["authorize"];
  readonly limits: Limits;
  readonly report: (error: unknown) => void;
}

function readOptions(options: LockRoutesOptions): Settings {
  const {
    lock,
    maxTtlMs = DEFAULT_MAX_TTL_MS,
    maxWaitMs = DEFAULT_MAX_WAIT_MS,
    defaultTtlMs = Math.min(DEFAULT_LEASE_TTL_MS, maxTtlMs),
    onError = () => {},
  } = options;
  checkLock(lock);
  if (typeof options.authorize !== "function") {
    throw new TypeError("Cannot register lockRoutes without 'authorize': anybody could use it");
  }
  if (typeof onError !== "function") {
    throw new TypeError("Cannot use 'onError' as it is not a function");
  }
  checkTtl(defaultTtlMs);
  checkDuration("maxTtlMs", maxTtlMs, defaultTtlMs);
  checkDuration("maxWaitMs", maxWaitMs, 0);
  const limits = { defaultTtlMs, maxTtlMs, maxWaitMs };
  const authorize: Settings["authorize"] = (...args) => options.authorize(...args);
  return { lock, authorize, limits, report: quiet(onError) };
}

/** A listener that throws changes nothing. */
function quiet(listener: (error: unknown) => void): (error: unknown) => void {
  return (error) => {
    try {
      listener(error);
    } catch {
      // The response does not depend on logs.
    }
  };
}

function checkLock(lock: DistributedLock): asserts lock is AttachableLock {
  if (lock?.capabilities?.attach === true) return;
  throw new TypeError(
    "Cannot register lockRoutes as leases must outlive this process: " +
      "the lock's strategy has no 'attach'",
  );
}

function answer(reply: LockRoutesReply, { status, headers, body }: Problem): unknown {
  reply.code(status);
  reply.headers({ ...headers });
  return reply.send(body);
}
