/**
 * Hono middleware that holds a lock while a request is handled: on Deno, Node, Workers.
 *
 * @example Usage
 * ```ts
 * import { MemoryLock } from "@holdfast/lock";
 * import { honoLock, type HonoLockEnv } from "@holdfast/lock/http/hono";
 * import { Hono } from "hono";
 * import { assertEquals } from "@std/assert";
 *
 * await using locks = new MemoryLock(); // or any other strategy
 * const app = new Hono<HonoLockEnv>();
 * app.post(
 *   "/orders/:id",
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
import type { DistributedLock, Lease } from "../core/distributed_lock.ts";
import { acquireForRequest } from "./internal/acquire.ts";
import { respondUnderLease } from "./internal/held_response.ts";
import {
  checkKey,
  type HoldOptions,
  type LockKey,
  nameOf,
  readSettings,
} from "./internal/options.ts";
import { BODY_HEADERS, CLIENT_GONE, problemResponse } from "./internal/problem.ts";

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
    /** As the runtime made it. */
    readonly raw: Request;
    /** Its path. */
    readonly path: string;
    /** A parameter of the route. */
    param(name: string): string | undefined;
    /** A header. */
    header(name: string): string | undefined;
    /** A parameter of the query. */
    query(name: string): string | undefined;
  };
  /** The response, once a handler has made it. */
  res: Response;
  /** Sets a variable. */
  set: (name: never, value: never) => void;
}

/** Options of {@linkcode honoLock}. */
export interface HonoLockOptions<Context extends HonoContext = HonoContext> extends HoldOptions {
  /** The name of the lock for a request; `undefined` if it needs none. */
  key: LockKey<[c: Context]>;
}

/** Middleware that Hono accepts. */
export type HonoMiddleware<Context extends HonoContext = HonoContext> = (
  c: Context,
  next: () => Promise<void>,
) => Promise<Response | void>;

/**
 * Makes middleware that lets at most one request per key pass, across all processes. What comes after
 * it finds the lease at `c.get("lease")`.
 *
 * A request that cannot have the lock in time gets 409 with `Retry-After`; 503 if the lock service is
 * out of reach. The lock is held until the response is complete: a stream until it was read to its
 * end, was cancelled or broke off. A client that goes away while it waits leaves the queue. If the
 * lease is lost, `c.get("lease").signal` aborts and the response is 503, or breaks off if it has
 * begun.
 *
 * @param lock Any strategy.
 * @param options The key, and what to do if it is busy; or the key alone.
 * @throws {TypeError|RangeError} If an option is bad.
 *
 * @example One lock for all requests, without a wait
 * ```ts
 * import { MemoryLock } from "@holdfast/lock";
 * import { honoLock } from "@holdfast/lock/http/hono";
 * import { Hono } from "hono";
 * import { assertEquals } from "@std/assert";
 *
 * await using locks = new MemoryLock();
 * const app = new Hono();
 * app.use(honoLock(locks, "nightly-report"));
 * app.get("/", (c) => c.text("done"));
 *
 * const lease = await locks.acquire("nightly-report");
 * assertEquals((await app.request("/")).status, 409);
 * await lease.release();
 * assertEquals(await (await app.request("/")).text(), "done");
 * ```
 */
export function honoLock<Context extends HonoContext = HonoContext>(
  lock: DistributedLock,
  options: HonoLockOptions<Context> | string,
): HonoMiddleware<Context> {
  const given = typeof options === "string" ? { key: options } : options;
  checkKey(given.key);
  const settings = readSettings(given);
  return async function honoLock(c, next) {
    const { raw } = c.req;
    const name = await nameOf(given.key, c);
    // The signal costs as much as all the rest, so it is used only if the request may wait.
    const gone = name !== undefined && settings.waitMs > 0 ? raw.signal : undefined;
    const acquired = await acquireForRequest(lock, name, settings, gone);
    if (acquired.state === "failed") return problemResponse(acquired.problem);
    if (acquired.state === "gone") return new Response(null, { status: CLIENT_GONE });
    if (acquired.state === "unlocked") return await next();
    const { lease } = acquired;
    (c as { set(name: string, value: Lease): void }).set("lease", lease);
    let isAnswered = false;
    const response = await respondUnderLease(lease, settings, raw.method !== "HEAD", async () => {
      await next();
      // After a loss `c.res` is our own answer, which must not be discarded.
      return isAnswered ? new Response() : c.res;
    });
    isAnswered = true;
    if (lease.signal.aborted) keepHeaders(c.res, response);
    (c as { res: Response | undefined }).res = undefined; // else Hono copies all headers
    c.res = response;
  };
}

/** A problem keeps the headers that other middleware sets on every response, CORS for instance. */
function keepHeaders(from: Response, { headers }: Response): void {
  const ours = new Set<string>([...headers.keys(), ...BODY_HEADERS]);
  for (const [name, value] of from.headers) if (!ours.has(name)) headers.append(name, value);
}
