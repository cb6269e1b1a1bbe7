/**
 * Express middleware that holds a lock while a request is handled, for Express 4 and 5. Its steps are those of
 * `internal/request.ts`.
 *
 * @example Usage
 * ```ts
 * import { MemoryLock } from "@holdfast/lock";
 * import { expressLock } from "@holdfast/lock/http/express";
 * // @ts-types="@types/express"
 * import express from "express";
 *
 * await using locks = new MemoryLock(); // or any other strategy
 * const app = express();
 * app.use(expressLock(locks, { key: "nightly-report", waitMs: 2_000 }));
 * app.post("/report", (_req, res) => {
 *   res.send(`done under token ${res.locals.lease.fencingToken}`);
 * });
 * ```
 *
 * @module
 */
import type { DistributedLock, Lease } from "../core/contract/distributed_lock.ts";
import { lossOf } from "../core/contract/request.ts";
import { LockedResponse } from "./internal/node_response.ts";
import {
  type HandlerShield,
  type ShieldedResponse,
  shieldOf,
  writeProblem,
} from "./internal/node_shield.ts";
import {
  checkLock,
  type HoldSettings,
  MIDDLEWARE_OPTIONS,
  type MiddlewareOptions,
  type MiddlewareSettings,
  readOptions,
  report,
} from "./internal/options.ts";
import { acquireForRequest, keyOf, leasesOf } from "./internal/request.ts";
import { CLIENT_GONE, leaseLost } from "./shared/problem.ts";

export { type LockKey, type MiddlewareOptions, NO_LOCK, type NoLock } from "./internal/options.ts";
export type { ShieldedResponse } from "./internal/node_shield.ts";
export type { NodeResponse } from "./shared/server.ts";

/** The parts of an Express request that a key is usually made of. */
export interface ExpressLockRequest {
  /** The method of the request. */
  readonly method: string;
  /** The path and the query, as the client has sent them. */
  readonly originalUrl: string;
  /** The parameters of the route, decoded. */
  readonly params: Readonly<Record<string, string | string[] | undefined>>;
  /** The parameters of the query. */
  readonly query: unknown;
  /** The body, if earlier middleware has parsed it. */
  readonly body?: unknown;
  /** The headers. */
  readonly headers: Readonly<Record<string, string | string[] | undefined>>;
  /** Returns a header. */
  get(name: string): string | undefined;
}

/** The variables that {@linkcode expressLock} sets: `Response<unknown, ExpressLockLocals>`. */
export interface ExpressLockLocals {
  /** The lease, unless the request runs without one. */
  lease: Lease;
}

/**
 * Makes middleware that lets at most one request per key pass, across all processes, HEAD and OPTIONS
 * excepted. Later middleware and the handler find the lease at `res.locals.lease`.
 *
 * A request that does not get the lock within `waitMs` gets 409 with `Retry-After`, and 503 if the lock
 * service is out of reach. A client that disconnects while it waits leaves the queue.
 *
 * **The lock is held until the response is complete** (streams too), as Express does not say when a handler ends.
 * Work *after* the answer is not under the lock: answer last. If the client disconnects, the lock is held until
 * the handler answers or destroys the response, or the stream that it has piped into the response is over; and for
 * `maxHoldMs` at most. The same holds for a handler that fails after it has begun to write by hand: Express only
 * closes the connection. Let an error handler destroy the response then: `if (res.headersSent) res.destroy()`.
 *
 * If the lease is lost, `res.locals.lease.signal` aborts and the response is a 503, or is broken off if it
 * has begun. Nothing that the handler writes after that has an effect.
 *
 * HEAD and OPTIONS run *without the lock*, and without a lease. Express answers a HEAD request with the handler
 * of GET, at the same time as locked requests: if that handler changes anything, pass `unlockedMethods: []`.
 *
 * Middleware before the lock, such as sessions or compression, ends after the release. A request that
 * locks the same key twice gets a 500 at once, as it would wait for itself. A WebSocket is not under the
 * lock, as Express never sees the upgrade: use `locks.request()` in the socket's handler.
 *
 * @param lock Any strategy.
 * @param options The key, how long to wait, and what to do without the lock; or the key alone.
 * @returns Middleware. Its types ask for little, so that the handlers after it keep the types of their route.
 * @throws {TypeError|RangeError} If an option is bad.
 *
 * @example A key from the request: the decoded, validated id, not the URL
 * ```ts
 * import { MemoryLock } from "@holdfast/lock";
 * import { expressLock, type ExpressLockRequest } from "@holdfast/lock/http/express";
 * // @ts-types="@types/express"
 * import express from "express";
 *
 * await using locks = new MemoryLock();
 * const app = express();
 * const key = ({ params }: ExpressLockRequest) => {
 *   if (/^[1-9][0-9]*$/.test(`${params.id}`)) return `orders:${params.id}`;
 *   throw Object.assign(new Error("No such order"), { statusCode: 404 });
 * };
 * app.post("/orders/:id", expressLock(locks, { key, waitMs: 2_000 }), (_req, res) => {
 *   res.json({ token: String(res.locals.lease.fencingToken) });
 * });
 * ```
 *
 * @example Only some requests need the lock
 * ```ts
 * import { MemoryLock } from "@holdfast/lock";
 * import { expressLock, NO_LOCK } from "@holdfast/lock/http/express";
 * // @ts-types="@types/express"
 * import express from "express";
 *
 * await using locks = new MemoryLock();
 * const app = express();
 * app.use(expressLock(locks, { key: (req) => req.method === "POST" ? "orders" : NO_LOCK }));
 * ```
 */
export function expressLock<
  Request extends Pick<ExpressLockRequest, "method"> = ExpressLockRequest,
>(
  lock: DistributedLock,
  options: MiddlewareOptions<[req: Request]> | string,
): (
  req: Pick<ExpressLockRequest, "method">,
  res: ShieldedResponse,
  next: (error?: unknown) => void,
) => void {
  checkLock("the first argument of expressLock()", lock, options);
  const settings = readOptions("expressLock()", options, MIDDLEWARE_OPTIONS);
  return function expressLock(req, res, next) {
    if (settings.unlockedMethods.includes(req.method)) return next();
    lockRequest(lock, settings, req as Request, res).then((mayRun) => mayRun() && next(), next);
  };
}

const ALWAYS = () => true;
const NEVER = () => false;

/** Acquires the lock, or answers the request. Resolves with what to ask right before the handler may run. */
async function lockRequest<Request>(
  lock: DistributedLock,
  settings: MiddlewareSettings<[req: Request]>,
  req: Request,
  res: ShieldedResponse,
): Promise<() => boolean> {
  const key = await keyOf(settings.key, req);
  if (key === null) return ALWAYS;
  const shield = shieldOf(res);
  const locked = new LockedResponse(res, shield.destroy);
  const requester = { leases: leasesOf(res), abandoned: locked.abandoned };
  const acquired = await acquireForRequest(lock, key, settings, requester);
  if (acquired.state === "unlocked") return ALWAYS;
  if (acquired.state === "gone" && !locked.hasBegun) res.statusCode = CLIENT_GONE;
  if (acquired.state === "failed") res.end(writeProblem(res, acquired.problem) as never);
  if (acquired.state !== "held") return NEVER;
  const { lease } = acquired;
  const mayRun = holdUntilEnd(lease, res, shield, locked, settings);
  if (mayRun === NEVER) return NEVER;
  (res as ShieldedResponse & { locals: ExpressLockLocals }).locals.lease = lease;
  const { fencingHeader } = settings;
  if (fencingHeader !== undefined && !locked.hasBegun) {
    res.setHeader(fencingHeader, String(lease.fencingToken));
  }
  return mayRun;
}

/**
 * Holds the lock until the handler has ended: that is the end of its response, as nothing else says it. So
 * `end()` waits until the lease is proven and the lock released.
 *
 * @returns What to ask right before the handler may run; `NEVER` if the lease is lost already.
 */
function holdUntilEnd(
  lease: Lease,
  response: ShieldedResponse,
  shield: HandlerShield,
  locked: LockedResponse,
  settings: HoldSettings,
): () => boolean {
  const { end, writeHead } = response; // before later middleware wraps them
  let [isStarted, isAnswered, isLost] = [false, false, false];
  const answerLoss = (loss: unknown) => {
    if (isLost) return;
    isLost = true;
    report(settings, loss);
    if (shield.isReplaced) return;
    if (locked.hasBegun) return locked.breakOff();
    shield.replace(() => {
      if (locked.abandoned.aborted) return;
      response.writeHead = writeHead;
      end.apply(response, [writeProblem(response, leaseLost()) as never]);
    });
  };
  const handlerAnswers = async (args: never[]) => {
    isAnswered = true;
    shield.answered();
    try {
      const loss = await lossOf(lease);
      if (loss !== null) answerLoss(loss);
      locked.handlerEnded();
      if (loss === null && !shield.isReplaced) end.apply(response, args);
    } catch (error) {
      report(settings, error);
      shield.destroy();
    }
  };
  response.end = (...args) => {
    // The answer is not the handler's before its start, or if an inner lock has lost its lease: then it runs on.
    if (!isStarted || shield.isReplaced || isAnswered) end.apply(response, args);
    else handlerAnswers(args);
    return response;
  };
  shield.add(locked);
  locked.hold(lease, settings, { onLeaseLost: () => answerLoss(lease.signal.reason) });
  return isLost ? NEVER : () => isStarted = locked.startHandler();
}
