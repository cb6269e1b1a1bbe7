/**
 * Koa middleware that holds a lock while a request is handled. Its steps are those of `internal/request.ts`.
 *
 * @example Usage
 * ```ts
 * import { MemoryLock } from "@holdfast/lock";
 * import { koaLock } from "@holdfast/lock/http/koa";
 * // @ts-types="@types/koa"
 * import Koa from "koa";
 *
 * await using locks = new MemoryLock(); // or any other strategy
 * const app = new Koa();
 * app.use(koaLock(locks, { key: "nightly-report", waitMs: 2_000 }));
 * app.use((ctx) => {
 *   ctx.body = `done under token ${ctx.state.lease.fencingToken}`;
 * });
 * ```
 *
 * @module
 */
import type { DistributedLock, Lease } from "../core/contract/distributed_lock.ts";
import { LockedResponse } from "./internal/node_response.ts";
import {
  checkLock,
  type HoldSettings,
  MIDDLEWARE_OPTIONS,
  type MiddlewareOptions,
  readOptions,
  report,
} from "./internal/options.ts";
import { acquireForRequest, keyOf, leasesOf, runUnderLease } from "./internal/request.ts";
import { BODY_HEADERS, CLIENT_GONE, leaseLost, type Problem } from "./shared/problem.ts";
import type { NodeResponse } from "./shared/server.ts";

export { type LockKey, type MiddlewareOptions, NO_LOCK, type NoLock } from "./internal/options.ts";
export type { NodeResponse } from "./shared/server.ts";

/** The parts of Koa's context that are used. */
export interface KoaContext {
  /** Koa's state: the lease is put here, as `lease`. */
  state: { lease?: Lease };
  /** The path of the request. */
  readonly path: string;
  /** The method of the request. */
  readonly method: string;
  /** The `node:http` response. */
  readonly res: NodeResponse;
  /** False if the handler writes the response itself. */
  respond?: boolean | undefined;
  /** The status of the response. */
  status: number;
  /** The body of the response. */
  body: unknown;
  /** Returns a header of the request. */
  get(field: string): string;
  /** Sets a header of the response. */
  set(field: string, value: string): void;
  /** Removes a header of the response. */
  remove(field: string): void;
}

/**
 * Makes middleware that lets at most one request per key pass, across all processes, HEAD and OPTIONS
 * excepted. Later middleware finds the lease at `ctx.state.lease`.
 *
 * A request that does not get the lock within `waitMs` gets 409 with `Retry-After`, and 503 if the lock service is
 * out of reach. The lock is held until the response is complete (streams too) or the client has disconnected, and
 * in any case until the later middleware has ended. A client that disconnects while it waits leaves the queue. If
 * the lease is lost, `ctx.state.lease.signal` aborts and the response is a 503, or is broken off if it has begun.
 *
 * HEAD and OPTIONS run *without the lock*, and without a lease. A HEAD request usually runs the code of
 * GET, at the same time as locked requests: if that code changes anything, pass `unlockedMethods: []`.
 *
 * A request that locks the same key twice gets a 500 at once, as it would wait for itself. A WebSocket is
 * not under the lock, as Koa never sees the upgrade: use `locks.request()` in the socket's handler.
 *
 * @param lock Any strategy.
 * @param options The key, how long to wait, and what to do without the lock; or the key alone.
 * @throws {TypeError|RangeError} If an option is bad.
 *
 * @example A key from the request: the decoded, validated id, not the path
 * ```ts
 * import { MemoryLock } from "@holdfast/lock";
 * import { koaLock } from "@holdfast/lock/http/koa";
 * // @ts-types="@types/koa"
 * import Koa from "koa";
 *
 * await using locks = new MemoryLock();
 * const app = new Koa();
 * app.use(koaLock(locks, {
 *   key(ctx: Koa.Context) {
 *     const id = /^\/orders\/([1-9][0-9]*)\/?$/.exec(decodeURIComponent(ctx.path))?.[1];
 *     return `orders:${id ?? ctx.throw(404)}`;
 *   },
 * }));
 * ```
 *
 * @example Only some requests need the lock
 * ```ts
 * import { MemoryLock } from "@holdfast/lock";
 * import { koaLock, NO_LOCK } from "@holdfast/lock/http/koa";
 * // @ts-types="@types/koa"
 * import Koa from "koa";
 *
 * await using locks = new MemoryLock();
 * const app = new Koa();
 * app.use(koaLock(locks, { key: (ctx) => ctx.method === "POST" ? "orders" : NO_LOCK }));
 * ```
 */
export function koaLock<Context extends KoaContext = KoaContext>(
  lock: DistributedLock,
  options: MiddlewareOptions<[ctx: Context]> | string,
): (ctx: Context, next: () => Promise<unknown>) => Promise<void> {
  checkLock("the first argument of koaLock()", lock, options);
  const settings = readOptions("koaLock()", options, MIDDLEWARE_OPTIONS);
  return async function koaLock(ctx, next) {
    if (settings.unlockedMethods.includes(ctx.method)) return void await next();
    const key = await keyOf(settings.key, ctx);
    if (key === null) return void await next();
    const locked = new LockedResponse(ctx.res);
    const requester = { leases: leasesOf(ctx.res), abandoned: locked.abandoned };
    const acquired = await acquireForRequest(lock, key, settings, requester);
    if (acquired.state === "failed") writeProblem(ctx, acquired.problem);
    else if (acquired.state === "gone") {
      if (!locked.hasBegun) ctx.status = CLIENT_GONE;
    } else if (acquired.state === "unlocked") await next();
    else await runLocked(acquired.lease, ctx, next, locked, settings);
  };
}

async function runLocked(
  lease: Lease,
  ctx: KoaContext,
  next: () => Promise<unknown>,
  locked: LockedResponse,
  settings: HoldSettings,
): Promise<void> {
  const { lease: outer } = ctx.state;
  ctx.state.lease = lease;
  const { fencingHeader } = settings;
  if (fencingHeader !== undefined) ctx.set(fencingHeader, String(lease.fencingToken));
  const answerLoss = (error: unknown) => {
    report(settings, error);
    if (!locked.hasBegun && ctx.respond !== false) writeProblem(ctx, leaseLost());
  };
  locked.hold(lease, settings, {
    onLeaseLost(isHandlerRunning) {
      if (ctx.respond === false) locked.breakOff(); // Koa would not send our 503
      else if (!isHandlerRunning) answerLoss(lease.signal.reason);
    },
  });
  if (!locked.startHandler()) return;
  const run = async () => {
    try {
      await next();
    } finally {
      // Not before the handler has ended: a handler that has lost its lease must not find another one.
      if (outer !== undefined) ctx.state.lease = outer;
    }
  };
  const result = await runUnderLease(lease, settings, run);
  if (result.state === "lost") {
    ignoreSuccess(ctx);
    result.ended.then(() => locked.handlerEnded());
    return answerLoss(result.error);
  }
  locked.handlerEnded();
  if (result.state === "failed") throw result.error;
}

/** Ignores a later status below 400: a late handler has the same `ctx`, and Koa sends after all outer middleware. */
function ignoreSuccess(ctx: KoaContext): void {
  const { response } = ctx as unknown as { readonly response: object };
  const prototype = Object.getPrototypeOf(response);
  Object.defineProperty(response, "status", {
    configurable: true,
    get: () => Reflect.get(prototype, "status", response),
    set: (status: number) =>
      void (status < 400 || Reflect.set(prototype, "status", status, response)),
  });
}

function writeProblem(ctx: KoaContext, { status, headers, body }: Problem): void {
  for (const name of BODY_HEADERS) ctx.remove(name);
  ctx.status = status;
  ctx.body = body;
  for (const [name, value] of Object.entries(headers)) ctx.set(name, value);
}
