/**
 * A Fastify plugin that holds a lock while a route is handled. How a reply keeps the lock is in
 * `internal/fastify_hold.ts`.
 *
 * @example Usage
 * ```ts
 * import { type Lease, MemoryLock } from "@holdfast/lock";
 * import { fastifyLock } from "@holdfast/lock/http/fastify";
 * import { assertEquals } from "@std/assert";
 * import Fastify from "fastify";
 *
 * await using locks = new MemoryLock(); // or any other strategy
 * const app = Fastify();
 * await app.register(fastifyLock, { lock: locks, waitMs: 2_000 });
 * app.post("/orders", { config: { lock: "orders" } }, (request) => {
 *   const lease = request.getDecorator<Lease>("lease");
 *   return `done under token ${lease.fencingToken}`;
 * });
 *
 * const { body } = await app.inject({ method: "POST", url: "/orders" });
 * assertEquals(body, "done under token 1");
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
import { checkKey, isNoLock, keyOf, type LockKey, type NoLock } from "./internal/key.ts";
import { type HoldOptions, type HoldSettings, readSettings, report } from "./internal/options.ts";
import { CLIENT_GONE, leaseLost } from "./internal/problem.ts";
import { ResponseWatch } from "./internal/response_watch.ts";

export { type LockKey, NO_LOCK, type NoLock } from "./internal/key.ts";
export type { FastifyLockReply } from "./internal/fastify_reply.ts";
export type { NodeResponse } from "./internal/response_watch.ts";

/** The parts of a Fastify request that are used. */
export interface FastifyLockRequest {
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

/** The parts of a Fastify instance that are used. */
export interface FastifyLockApp {
  /** Adds a property to the instance. */
  decorate(name: string, value: unknown): unknown;
  /** Adds a property to each request. */
  decorateRequest(name: string, value: null): unknown;
  /** Adds a hook that is called for each new route. */
  addHook(name: "onRoute", hook: (route: FastifyLockRoute) => void): unknown;
}

/** Options of {@linkcode fastifyLock}. All except `lock` are defaults for its routes. */
export interface FastifyLockOptions extends HoldOptions {
  /** Any strategy. */
  lock: DistributedLock;
}

/**
 * The value of `config.lock` of a route: the key, or options with the key. `NO_LOCK` is the same as no
 * `lock` at all, but `undefined` is an error.
 */
export type FastifyRouteLock =
  | NoLock
  | LockKey<[request: FastifyLockRequest]>
  | FastifyRouteLockOptions;

/** Options of one route. */
export interface FastifyRouteLockOptions extends HoldOptions {
  /** The name of the lock for a request; {@linkcode NO_LOCK} if it needs none. */
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
 * held until the response is complete (streams too) or the client has disconnected, and in any case
 * until the handler has ended. A request that does not get the lock within `waitMs` gets 409 with
 * `Retry-After`, and 503 if the lock service is out of reach. A client that disconnects while it waits
 * leaves the queue. If the lease is lost, `request.lease.signal` aborts and the response is a 503, or
 * is broken off if it has begun.
 *
 * @param app The Fastify instance.
 * @param options The lock, and defaults for the routes.
 * @throws {TypeError|RangeError} If an option of the plugin or of a route is bad.
 *
 * @example A key from the request, and options of one route
 * ```ts
 * import { MemoryLock } from "@holdfast/lock";
 * import { fastifyLock, type FastifyLockRequest } from "@holdfast/lock/http/fastify";
 * import { assertEquals } from "@std/assert";
 * import Fastify from "fastify";
 *
 * await using locks = new MemoryLock();
 * const app = Fastify();
 * await app.register(fastifyLock, { lock: locks });
 * const key = ({ params }: FastifyLockRequest) => `orders:${(params as { id: string }).id}`;
 * app.post("/orders/:id", { config: { lock: { key, busyStatus: 423 } } }, () => "done");
 *
 * await using _lease = await locks.acquire("orders:42"); // another request, say
 * assertEquals((await app.inject({ method: "POST", url: "/orders/42" })).statusCode, 423);
 * assertEquals((await app.inject({ method: "POST", url: "/orders/43" })).body, "done");
 * await app.close();
 * ```
 */
// deno-lint-ignore require-await -- Fastify expects an async plugin, or one with a callback
export async function fastifyLock(
  app: FastifyLockApp,
  options: FastifyLockOptions,
): Promise<void> {
  const { lock, ...defaults } = options;
  if (typeof lock?.acquire !== "function") {
    throw new TypeError("Cannot register fastifyLock as 'lock' is not a lock: pass a strategy");
  }
  readSettings(defaults);
  app.decorate("locks", lock);
  app.decorateRequest("lease", null);
  app.addHook("onRoute", (route) => {
    if (route.config === undefined || !("lock" in route.config)) return;
    const given = route.config.lock as FastifyRouteLock;
    if (isNoLock(given)) return;
    const own = typeof given === "object" ? given : { key: given };
    checkRouteKey(own?.key);
    wire(route, { lock, key: own.key, settings: readSettings({ ...defaults, ...own }) });
  });
}

// As the package fastify-plugin does: the decorators and hooks apply to the parent instance.
Object.assign(fastifyLock, {
  [Symbol.for("skip-override")]: true,
  [Symbol.for("fastify.display-name")]: "@holdfast/lock",
  [Symbol.for("plugin-meta")]: { name: "@holdfast/lock", fastify: ">=4" },
});

/**
 * Handlers that are already wrapped. Fastify makes a HEAD route of each GET route and may reuse our
 * wrapped handler for it: a second wrap would acquire the lock twice.
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

/** Checks the key of a route. One that is `undefined` by accident must not leave the route unlocked. */
function checkRouteKey(key: unknown): void {
  if (key !== undefined) return checkKey(key);
  throw new TypeError(
    "Cannot add a route whose 'config.lock' has no key: leave 'lock' out, or set it to NO_LOCK, if the " +
      "route needs no lock",
  );
}

function acquireBefore({ lock, key, settings }: RouteLock, holds: Holds) {
  return async function lockPreHandler(request: Request, reply: Reply): Promise<unknown> {
    const name = await keyOf(key, request);
    if (isNoLock(name)) return undefined;
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
