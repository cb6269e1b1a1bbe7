/**
 * Hono middleware that holds a lock while a request is handled, on Deno, Node and Workers. Its steps are those of
 * `internal/request.ts`.
 *
 * @example Usage
 * ```ts
 * import { MemoryLock } from "@holdfast/lock";
 * import { honoLock, type HonoLockEnv } from "@holdfast/lock/http/hono";
 * import { assertEquals } from "@std/assert";
 * import { Hono } from "hono";
 *
 * await using locks = new MemoryLock(); // or any other strategy
 * const app = new Hono<HonoLockEnv>();
 * app.post(
 *   "/orders/:id{[1-9][0-9]*}", // decoded and validated: an order has many URLs, but one lock
 *   honoLock(locks, { key: (c) => `orders:${c.req.param("id")}`, waitMs: 2_000 }),
 *   (c) => c.text(`done under token ${c.get("lease").fencingToken}`),
 * );
 *
 * const response = await app.request("/orders/42", { method: "POST" });
 * assertEquals(await response.text(), "done under token 1");
 * ```
 *
 * @module
 */
import { pause, SYSTEM_CLOCK } from "../core/time/clock.ts";
import type { DistributedLock, Lease } from "../core/contract/distributed_lock.ts";
import { acquireForFetch, respondUnderLease } from "./internal/fetch_response.ts";
import {
  checkLock,
  MIDDLEWARE_OPTIONS,
  type MiddlewareOptions,
  readOptions,
} from "./internal/options.ts";
import { keyOf } from "./internal/request.ts";
import { BODY_HEADERS } from "./shared/problem.ts";

export { type LockKey, type MiddlewareOptions, NO_LOCK, type NoLock } from "./internal/options.ts";

/** The variables that {@linkcode honoLock} sets: `new Hono<HonoLockEnv>()`. */
export interface HonoLockEnv {
  /** The variables, as Hono expects them. */
  Variables: {
    /** The lease, unless the request runs without one. */
    lease: Lease;
  };
}

/** The parts of Hono's context that are used. */
export interface HonoContext {
  /** The request. */
  readonly req: {
    /** The request as the runtime made it. */
    readonly raw: Request;
    /** The path of the URL. */
    readonly path: string;
    /** Returns a parameter of the route. */
    param(name: string): string | undefined;
    /** Returns a header. */
    header(name: string): string | undefined;
    /** Returns a parameter of the query. */
    query(name: string): string | undefined;
  };
  /** The response, once a handler has made it. */
  res: Response;
  /** Returns a variable. */
  get: (name: never) => unknown;
  /** Sets a variable. */
  set: (name: never, value: never) => void;
}

/**
 * Makes middleware that lets at most one request per key pass, across all processes, HEAD and OPTIONS
 * excepted. Later middleware and the handler find the lease at `c.get("lease")`.
 *
 * A request that does not get the lock within `waitMs` gets 409 with `Retry-After`, and 503 if the lock
 * service is out of reach. The lock is held until the response is complete; with a stream, until it has been
 * read to its end, is cancelled, or fails. A client that disconnects while it waits leaves the queue. If the
 * lease is lost, `c.get("lease").signal` aborts and the response is a 503, or is broken off if it has begun.
 *
 * HEAD and OPTIONS run *without the lock*, and without a lease. Hono answers a HEAD request with the handler
 * of GET, at the same time as locked requests: if that handler changes anything, pass `unlockedMethods: []`.
 *
 * A request that locks the same key twice gets a 500 at once, as it would wait for itself. A WebSocket is not under
 * the lock, which is released when the connection is upgraded: use `locks.request()` in the socket's handler.
 *
 * @param lock Any strategy.
 * @param options The key, how long to wait, and what to do without the lock; or the key alone.
 * @throws {TypeError|RangeError} If an option is bad.
 *
 * @example One lock for a whole app, without waiting
 * ```ts
 * import { MemoryLock } from "@holdfast/lock";
 * import { honoLock } from "@holdfast/lock/http/hono";
 * import { assertEquals } from "@std/assert";
 * import { Hono } from "hono";
 *
 * await using locks = new MemoryLock();
 * const app = new Hono();
 * app.use(honoLock(locks, "nightly-report"));
 * app.post("/", (c) => c.text("done"));
 *
 * await using _lease = await locks.acquire("nightly-report"); // another request, say
 * assertEquals((await app.request("/", { method: "POST" })).status, 409);
 * ```
 */
export function honoLock<Context extends HonoContext = HonoContext>(
  lock: DistributedLock,
  options: MiddlewareOptions<[c: Context]> | string,
): (c: Context, next: () => Promise<void>) => Promise<Response | void> {
  checkLock("the first argument of honoLock()", lock, options);
  const settings = readOptions("honoLock()", options, MIDDLEWARE_OPTIONS);
  return async function honoLock(c, next) {
    const { raw } = c.req;
    if (settings.unlockedMethods.includes(raw.method)) return await next();
    const lease = await acquireForFetch(lock, settings, raw, keyOf(settings.key, c), c);
    if (lease instanceof Response) return lease;
    if (lease === null) return await next();
    // Hono's own types of variables depend on the app's.
    const variables = c as {
      get(name: "lease"): Lease | undefined;
      set(name: "lease", value: Lease): void;
    };
    const outer = variables.get("lease");
    variables.set("lease", lease);
    let isAnswered = false;
    const response = await respondUnderLease(lease, settings, raw, async () => {
      try {
        await next();
      } finally {
        // Not before the handler has ended: one that has lost its lease must not find another one.
        if (outer !== undefined) variables.set("lease", outer);
      }
      // If the lease was lost, `c.res` is our own 503 by now, which must not be discarded.
      return isAnswered ? new Response() : c.res;
    });
    // Hono answers the error of a handler that heeds the loss: our 503 must replace that answer.
    if (lease.signal.aborted) await pause(SYSTEM_CLOCK, 0);
    isAnswered = true;
    if (lease.signal.aborted) keepHeaders(c.res, response);
    // Without this, Hono would merge the old headers into the new response.
    (c as { res: Response | undefined }).res = undefined;
    c.res = response;
  };
}

/** Keeps the headers that other middleware has set on the response that a problem replaces (CORS). */
function keepHeaders(from: Response, { headers }: Response): void {
  const ours = new Set<string>([...headers.keys(), ...BODY_HEADERS]);
  for (const [name, value] of from.headers) if (!ours.has(name)) headers.append(name, value);
}
