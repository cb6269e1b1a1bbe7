/**
 * A Fastify plugin: `fastifyLock` holds a lock while a route is handled.
 *
 * @example Usage
 * ```ts
 * import { type Lease, MemoryLock } from "@holdfast/lock";
 * import { fastifyLock } from "@holdfast/lock/http/fastify";
 * import Fastify from "fastify";
 * import { assertEquals } from "@std/assert";
 *
 * await using locks = new MemoryLock(); // or any other strategy
 * const app = Fastify();
 * await app.register(fastifyLock, { lock: locks, waitMs: 2_000 });
 * app.post("/orders", { config: { lock: "orders" } }, (request) => {
 *   const lease = request.getDecorator<Lease>("lease");
 *   return `done under token ${lease.fencingToken}`;
 * });
 *
 * const response = await app.inject({ method: "POST", url: "/orders" });
 * assertEquals(response.body, "done under token 1");
 * await app.close();
 * ```
 *
 * @module
 */
import type { DistributedLock, Lease } from "../core/distributed_lock.ts";
import { acquireForRequest } from "./internal/acquire.ts";
import { FastifyHold } from "./internal/fastify_hold.ts";
import { discard, type FastifyLockReply, toProblem } from "./internal/fastify_reply.ts";
import { lossOf } from "./internal/lease_end.ts";
import {
  checkKey,
  type HoldOptions,
  type HoldSettings,
  type LockKey,
  nameOf,
  readSettings,
  report,
} from "./internal/options.ts";
import { CLIENT_GONE, leaseLost } from "./internal/problem.ts";
import { ResponseWatch } from "./internal/response_watch.ts";

export type { FastifyLockReply } from "./internal/fastify_reply.ts";
export type { NodeResponse } from "./internal/response_watch.ts";

/** The parts of a Fastify request that are used. */
export interface FastifyLockRequest {
  /** The parameters of the route. */
  readonly params: unknown;
  /** The parameters of the query. */
  readonly query: unknown;
  /** The body, parsed and validated: the lock is acquired after that. */
  readonly body?: unknown;
  /** The path and query. */
  readonly url: string;
  /** The headers. */
  readonly headers: Readonly<Record<string, string | string[] | undefined>>;
}

/** The parts of a Fastify route that are used. */
export interface FastifyLockRoute {
  /** The route's own options: `lock` is ours. */
  config?: { readonly lock?: unknown };
  /** Its handler; replaced. */
  handler: unknown;
  /** Hooks that run before it; we add one. */
  preHandler?: unknown;
  /** Hooks that run before its response is sent; we add one. */
  onSend?: unknown;
}

/** The parts of a Fastify instance that are used. */
export interface FastifyLockApp {
  /** Adds a property to the instance. */
  decorate(name: string, value: unknown): unknown;
  /** Adds a property to each request. */
  decorateRequest(name: string, value: null): unknown;
  /** Listens for routes. */
  addHook(name: "onRoute", hook: (route: FastifyLockRoute) => void): unknown;
}

/** Options of {@linkcode fastifyLock}; all but `lock` are defaults of the routes. */
export interface FastifyLockOptions extends HoldOptions {
  /** Any strategy. */
  lock: DistributedLock;
}

/** The value of `config.lock` of a route: the key, or options with the key. */
export type FastifyRouteLock =
  | LockKey<[request: FastifyLockRequest]>
  | FastifyRouteLockOptions;

/** Options of one route. */
export interface FastifyRouteLockOptions extends HoldOptions {
  /** The name of the lock for a request; `undefined` if it needs none. */
  key: LockKey<[request: FastifyLockRequest]>;
}

/** The lock of one route. */
interface RouteLock {
  readonly lock: DistributedLock;
  readonly key: LockKey<[request: FastifyLockRequest]>;
  readonly settings: HoldSettings;
}

type Request = FastifyLockRequest & { lease: Lease | null };
type Reply = FastifyLockReply;
/** The requests that hold a lock. */
type Holds = WeakMap<FastifyLockRequest, FastifyHold>;
type Handler = (this: unknown, request: Request, reply: Reply) => unknown;

/**
 * A plugin that decorates the instance with `locks` and each request with `lease`, and acquires the
 * lock of every route that has a `lock` in its `config`: `{ config: { lock: "key" } }`, a function of
 * the request, or options with `key`.
 *
 * The lock is acquired right before the handler (after authentication, parsing and validation) and
 * held until the response is complete (streams too) or was aborted, and in any case until the handler
 * has ended. A request that cannot have the lock in time gets 409 with `Retry-After`; 503 if the lock
 * service is out of reach. A client that goes away while it waits leaves the queue. If the lease is
 * lost, `request.lease.signal` aborts and the response is 503, or breaks off if it has begun.
 *
 * @param app The instance.
 * @param options The lock, and defaults of the routes.
 * @throws {TypeError|RangeError} If an option of the plugin or of a route is bad.
 *
 * @example A key per request
 * ```ts
 * import { MemoryLock } from "@holdfast/lock";
 * import { fastifyLock, type FastifyRouteLock } from "@holdfast/lock/http/fastify";
 * import Fastify from "fastify";
 * import { assertEquals } from "@std/assert";
 *
 * await using locks = new MemoryLock();
 * const app = Fastify();
 * await app.register(fastifyLock, { lock: locks });
 * const lock: FastifyRouteLock = {
 *   key: ({ params }) => `orders:${(params as { id: string }).id}`,
 *   waitMs: 0,
 * };
 * app.post("/orders/:id", { config: { lock } }, () => "shipped");
 *
 * await using _lease = await locks.acquire("orders:42");
 * assertEquals((await app.inject({ method: "POST", url: "/orders/42" })).statusCode, 409);
 * assertEquals((await app.inject({ method: "POST", url: "/orders/43" })).statusCode, 200);
 * await app.close();
 * ```
 */
// deno-lint-ignore require-await -- Fastify takes plugins that are async, or call back
export async function fastifyLock(
  app: FastifyLockApp,
  options: FastifyLockOptions,
): Promise<void> {
  const { lock, ...defaults } = options;
  if (typeof lock?.acquire !== "function") {
    throw new TypeError("Cannot register fastifyLock as 'lock' is not a lock");
  }
  readSettings(defaults);
  app.decorate("locks", lock);
  app.decorateRequest("lease", null);
  app.addHook("onRoute", (route) => {
    const given = route.config?.lock as FastifyRouteLock | undefined;
    if (given === undefined) return;
    const own = typeof given === "object" ? given : { key: given };
    checkKey(own.key);
    wire(route, { lock, key: own.key, settings: readSettings({ ...defaults, ...own }) });
  });
}

// As the package fastify-plugin does: decorators and hooks belong to the parent.
Object.assign(fastifyLock, {
  [Symbol.for("skip-override")]: true,
  [Symbol.for("fastify.display-name")]: "@holdfast/lock",
  [Symbol.for("plugin-meta")]: { name: "@holdfast/lock", fastify: ">=4" },
});

/**
 * Handlers that are wrapped: Fastify makes HEAD routes of GET routes, perhaps with our own handler.
 */
const wrapped = new WeakSet<Handler>();

/** Adds our hooks to a route and wraps its handler. */
function wire(route: FastifyLockRoute, routeLock: RouteLock): void {
  if (wrapped.has(route.handler as Handler)) return;
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

function acquireBefore({ lock, key, settings }: RouteLock, holds: Holds) {
  return async function lockPreHandler(request: Request, reply: Reply): Promise<unknown> {
    const name = await nameOf(key, request);
    if (name === undefined) return undefined;
    const watch = new ResponseWatch(reply.raw);
    const acquired = await acquireForRequest(lock, name, settings, watch.gone);
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
