/**
 * Adds the lock to a Fastify route: acquires it before the handler, and checks the lease before
 * the response is sent. Also finds the routes that the `onRoute` hook has not seen, as they
 * were added before the plugin: they would run unlocked.
 *
 * @module
 */
import type { DistributedLock, Lease } from "../../../core/contract/distributed_lock.ts";
import { LockSetupError } from "../../../core/contract/errors.ts";
import { lossOf } from "../../../core/contract/request.ts";
import { leaseLost } from "../../shared/problem.ts";
import { LockedResponse } from "../node_response.ts";
import { type MiddlewareSettings, NO_LOCK, report } from "../options.ts";
import { acquireForRequest, discard, keyOf, leasesOf } from "../request.ts";
import { answerNobody, type FastifyLockReply, LockedReply, writeProblem } from "./reply.ts";

/** The mark in the config of a route that has our hooks. */
const WIRED = Symbol("holdfast lock");

/** Fastify's answer when there is no route. */
const NO_ROUTES = "(empty tree)";

const WHY =
  'it was added before fastifyLock had loaded: write "await app.register(fastifyLock, …)" ' +
  "before the routes";

/** The parts of a Fastify request that are used. */
export interface FastifyLockRequest {
  /** The method of the request. */
  readonly method: string;
  /** The parameters of the route. */
  readonly params: unknown;
  /** The parameters of the query. */
  readonly query: unknown;
  /** The body, already parsed and validated when the key is determined. */
  readonly body?: unknown;
  /** The path and the query. */
  readonly url: string;
  /** The headers. */
  readonly headers: Readonly<Record<string, string | string[] | undefined>>;
  /** The route of the request. */
  readonly routeOptions?: { readonly url?: string | undefined; readonly config?: object };
}

/** The parts of a Fastify route that are used. */
export interface FastifyLockRoute {
  /** Custom options of the route; `lock` belongs to this plugin. */
  config?: { readonly lock?: unknown };
  /** The handler. The plugin wraps it. */
  handler: unknown;
  /** Hooks that run before the handler. The plugin adds one that acquires the lock. */
  preHandler?: unknown;
  /** Hooks that run before the response is sent. The plugin adds one that checks the lease. */
  onSend?: unknown;
}

const lockedReplies = new WeakMap<FastifyLockRequest, LockedReply>();
/** Fastify may reuse our handler for the HEAD route of a GET route: a second wrap would lock twice. */
const wrapped = new WeakSet<object>();

export function wireRoute(
  route: FastifyLockRoute,
  lock: DistributedLock,
  settings: MiddlewareSettings<[request: FastifyLockRequest]>,
): void {
  const handler = route.handler as (...args: unknown[]) => unknown;
  if (wrapped.has(handler)) return;
  const lockHandler = function (
    this: unknown,
    request: FastifyLockRequest,
    reply: FastifyLockReply,
  ): unknown {
    const run = () => handler.call(this, request, reply);
    const locked = lockedReplies.get(request);
    return locked === undefined ? run() : locked.run(run);
  };
  wrapped.add(lockHandler);
  route.handler = lockHandler;
  route.config = Object.assign({ [WIRED]: true }, route.config);
  const lockPreHandler = (request: FastifyLockRequest, reply: FastifyLockReply) =>
    lockRequest(lock, settings, request, reply);
  route.preHandler = [route.preHandler ?? [], lockPreHandler].flat();
  const lockOnSend = async (
    request: FastifyLockRequest,
    reply: FastifyLockReply,
    payload: unknown,
  ) => {
    const locked = lockedReplies.get(request);
    if (locked === undefined) return payload;
    locked.answerGiven(); // this hook answers the loss that it may notice
    const loss = await lossOf(locked.lease);
    if (loss === null) {
      locked.responseMade();
      return payload;
    }
    report(settings, loss);
    discard(payload, settings);
    return writeProblem(reply, leaseLost());
  };
  route.onSend = [lockOnSend, route.onSend ?? []].flat();
}

/** A hook before the handler: acquires the lock, or answers the request. */
async function lockRequest(
  lock: DistributedLock,
  settings: MiddlewareSettings<[request: FastifyLockRequest]>,
  request: FastifyLockRequest,
  reply: FastifyLockReply,
): Promise<unknown> {
  if (settings.unlockedMethods.includes(request.method)) return undefined;
  const key = await keyOf(settings.key, request);
  if (key === null) return undefined;
  const locked = new LockedResponse(reply.raw);
  const requester = { leases: leasesOf(request), abandoned: locked.abandoned };
  const acquired = await acquireForRequest(lock, key, settings, requester);
  if (acquired.state === "unlocked") return undefined;
  if (acquired.state === "gone") return answerNobody(reply);
  if (acquired.state === "failed") return reply.send(writeProblem(reply, acquired.problem));
  const { lease } = acquired;
  (request as { lease?: Lease }).lease = lease;
  const { fencingHeader } = settings;
  if (fencingHeader !== undefined) reply.header(fencingHeader, String(lease.fencingToken));
  lockedReplies.set(request, new LockedReply(lease, locked, reply, settings));
  return undefined;
}

/** An `onRequest` hook: Fastify calls it for earlier routes of the same scope, too. */
export function refuseUnwired(
  request: FastifyLockRequest,
  _reply: unknown,
  done: (error?: Error) => void,
): void {
  const { config, url } = request.routeOptions ?? {};
  const hasLock = config !== undefined && "lock" in config && config.lock !== NO_LOCK;
  if (!hasLock || WIRED in config) return done();
  done(new LockSetupError(`Cannot run ${request.method} ${url} without its lock: ${WHY}`));
}

/**
 * Checks at start-up that the plugin did not load after all routes: it would lock none of them.
 *
 * @param routes All routes of the server, as Fastify prints them.
 * @throws {LockSetupError} If there are routes, but the `onRoute` hook has seen none.
 */
export function checkSeen(seenRoutes: number, routes: string): void {
  if (seenRoutes > 0 || routes.trim() === NO_ROUTES || routes.trim() === "") return;
  throw new LockSetupError(`Cannot lock any route of the server. For each of them, ${WHY}`);
}
