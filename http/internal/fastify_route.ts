/**
 * Adds the lock to a Fastify route: acquires it before the handler, and checks the lease before the
 * response is sent. How a reply keeps the lock is in `fastify_hold.ts`.
 *
 * @module
 */
import type { DistributedLock, Lease } from "../../core/contract/distributed_lock.ts";
import { acquireForRequest } from "./acquire.ts";
import { markWired } from "./fastify_guard.ts";
import { FastifyHold } from "./fastify_hold.ts";
import { discard, type FastifyLockReply, toProblem } from "./fastify_reply.ts";
import { isNoLock, keyOf, type LockKey } from "./key.ts";
import { lossOf } from "./lease_end.ts";
import { type HoldSettings, report } from "./options.ts";
import { CLIENT_GONE, leaseLost } from "./problem.ts";
import { holdsOf, RequestHolds } from "./request_holds.ts";
import { ResponseWatch } from "./response_watch.ts";

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

/** The lock of one route. */
export interface RouteLock {
  readonly lock: DistributedLock;
  readonly key: LockKey<[request: FastifyLockRequest]>;
  readonly settings: HoldSettings;
  /** The methods that run without the lock. */
  readonly unlocked: readonly string[];
}

type Request = FastifyLockRequest & { lease: Lease | null };
type Reply = FastifyLockReply;
/** The requests that hold a lock. */
type Holds = WeakMap<FastifyLockRequest, FastifyHold>;
type Handler = (this: unknown, request: Request, reply: Reply) => unknown;

/**
 * Handlers that are already wrapped. Fastify makes a HEAD route of each GET route and may reuse our
 * wrapped handler for it: a second wrap would acquire the lock twice.
 */
const wrapped = new WeakSet<Handler>();

/** Adds our hooks to a route and wraps its handler. */
export function wireRoute(route: FastifyLockRoute, routeLock: RouteLock): void {
  if (wrapped.has(route.handler as Handler)) return;
  route.config = markWired(route.config);
  const holds: Holds = new WeakMap();
  const { settings } = routeLock;
  route.preHandler = [route.preHandler ?? [], acquireBefore(routeLock, holds)].flat();
  const handler = wrapHandler(route.handler as Handler, holds);
  wrapped.add(handler);
  route.handler = handler;
  route.onSend = [
    async function lockOnSend(request: Request, reply: Reply, payload: unknown) {
      const hold = holds.get(request);
      if (hold === undefined) return payload;
      const loss = await lossOf(hold.lease);
      if (loss === null) {
        hold.responseMade();
        return payload;
      }
      report(settings, loss);
      discard(payload);
      return toProblem(reply, leaseLost());
    },
    route.onSend ?? [],
  ].flat();
}

function acquireBefore({ lock, key, settings, unlocked }: RouteLock, holds: Holds) {
  return async function lockPreHandler(request: Request, reply: Reply): Promise<unknown> {
    if (unlocked.includes(request.method)) return undefined;
    const name = await keyOf(key, request);
    if (isNoLock(name)) return undefined;
    const watch = new ResponseWatch(reply.raw);
    const requester = { holds: new RequestHolds(holdsOf(request), lock), gone: watch.gone };
    const acquired = await acquireForRequest(lock, name, settings, requester);
    if (acquired.state === "unlocked") return undefined;
    if (acquired.state === "gone") {
      reply.code(CLIENT_GONE);
      return reply.send();
    }
    if (acquired.state === "failed") return reply.send(toProblem(reply, acquired.problem));
    const { lease } = acquired;
    request.lease = lease;
    const { fencingHeader } = settings;
    if (fencingHeader !== undefined) reply.header(fencingHeader, String(lease.fencingToken));
    holds.set(request, new FastifyHold(lease, watch, reply, settings));
    return undefined;
  };
}

function wrapHandler(handler: Handler, holds: Holds): Handler {
  return function lockHandler(request, reply) {
    const run = () => handler.call(this, request, reply);
    const hold = holds.get(request);
    return hold === undefined ? run() : hold.run(run);
  };
}
