/**
 * A Fastify plugin that holds a lock while a route is handled. Its steps are those of `internal/request.ts`.
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
import type { DistributedLock } from "../core/contract/distributed_lock.ts";
import { readTable, required } from "../core/contract/options.ts";
import {
  checkSeen,
  type FastifyLockRequest,
  type FastifyLockRoute,
  refuseUnwired,
  wireRoute,
} from "./internal/fastify/route.ts";
import {
  checkLock,
  type LockKey,
  MIDDLEWARE_OPTIONS,
  type MiddlewareOptions,
  NO_LOCK,
  type NoLock,
  readOptions,
} from "./internal/options.ts";
import { REGISTER_OPTIONS } from "./shared/server.ts";

export { type LockKey, type MiddlewareOptions, NO_LOCK, type NoLock } from "./internal/options.ts";
export type { FastifyLockReply } from "./internal/fastify/reply.ts";
export type { FastifyLockRequest, FastifyLockRoute } from "./internal/fastify/route.ts";
export type { NodeResponse } from "./shared/server.ts";

/** The parts of a Fastify instance that are used. */
export interface FastifyLockApp {
  /** Adds a property to the instance. */
  decorate(name: string, value: unknown): unknown;
  /** Adds a property to each request. */
  decorateRequest(name: string, value: null): unknown;
  /** Adds a hook that is called for each new route. */
  addHook(name: "onRoute", hook: (route: FastifyLockRoute) => void): unknown;
  /** Adds a hook that is called for each request. */
  addHook(
    name: "onRequest",
    hook: (request: FastifyLockRequest, reply: unknown, done: (error?: Error) => void) => void,
  ): unknown;
  /** Adds a hook that is called before the server starts. */
  addHook(name: "onReady", hook: () => Promise<void>): unknown;
  /** Lists all routes of the server. */
  printRoutes(): string;
}

/** Options of {@linkcode fastifyLock}. All except `lock` are defaults for its routes. */
export interface FastifyLockOptions
  extends Omit<MiddlewareOptions<[request: FastifyLockRequest]>, "key"> {
  /** The locks, of any strategy. */
  lock: DistributedLock;
}

/** The `config.lock` of a route: its key, or options with it. `NO_LOCK` is as no `lock`; `undefined` is an error. */
export type FastifyRouteLock =
  | NoLock
  | LockKey<[request: FastifyLockRequest]>
  | MiddlewareOptions<[request: FastifyLockRequest]>;

const { key: KEY, ...DEFAULTS } = MIDDLEWARE_OPTIONS;
const PLUGIN_OPTIONS = {
  ...DEFAULTS,
  ...REGISTER_OPTIONS,
  lock: required(checkPluginLock),
};

/**
 * A plugin that decorates the instance with `locks` and each request with `lease`, and acquires the lock of each
 * route with `lock` in its `config`: `{ config: { lock: "key" } }`, a function of the request, or options with `key`.
 *
 * The lock is acquired right before the handler (after authentication, parsing and validation) and held
 * until the response is complete (streams too) or the client has disconnected, and in any case until the
 * handler has ended. A request that does not get the lock within `waitMs` gets 409 with `Retry-After`, and
 * 503 if the lock service is out of reach. A client that disconnects while it waits leaves the queue. If the
 * lease is lost, `request.lease.signal` aborts and the response is a 503, or is broken off if it has begun.
 *
 * HEAD and OPTIONS run *without the lock*, and without a lease. Fastify answers a HEAD request with the handler of
 * GET, at the same time as locked requests: if that handler changes anything, pass `unlockedMethods: []`. A WebSocket
 * is not under the lock: give its route no `lock`, and use `request.server.locks.request()` in the socket's handler.
 *
 * Write `await app.register(fastifyLock, …)` *before* the routes: the plugin cannot add a lock to a route that
 * exists already. If it has loaded after all routes, the server does not start. A request to an earlier route with
 * a `lock` gets a 500 that names the reason, and the handler does not run. Only routes of another scope are out of
 * its reach: those of a plugin that was registered before, or of the instance above the scope of `fastifyLock`.
 *
 * @param app The Fastify instance.
 * @param options The lock, and defaults for the routes.
 * @throws {TypeError|RangeError} If an option of the plugin or of a route is bad.
 * @throws {LockSetupError} From `app.ready()`, if the plugin has loaded after all routes.
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
 * // Decoded and validated: an order has many URLs, but one lock.
 * app.post("/orders/:id(^[1-9][0-9]*$)", { config: { lock: { key, busyStatus: 423 } } }, () => "done");
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
  if (!("lock" in Object(options))) checkPluginLock("'lock'", undefined); // before unknown options
  const { lock, ...defaults } = readTable("fastifyLock()", options, PLUGIN_OPTIONS);
  const routeOptions = routeTable(defaults);
  app.decorate("locks", lock);
  app.decorateRequest("lease", null);
  let seenRoutes = 0;
  app.addHook("onRequest", refuseUnwired);
  // deno-lint-ignore require-await -- Fastify expects an async hook, or one with a callback
  app.addHook("onReady", async () => checkSeen(seenRoutes, app.printRoutes()));
  app.addHook("onRoute", (route) => {
    seenRoutes++;
    if (route.config === undefined || !("lock" in route.config)) return;
    const config = route.config.lock as FastifyRouteLock;
    if (config === NO_LOCK) return;
    const own = typeof config === "object"
      ? config as MiddlewareOptions<[request: FastifyLockRequest]>
      : { key: config };
    wireRoute(route, lock, readOptions("the lock of a route", own ?? {}, routeOptions));
  });
}

// As the package fastify-plugin does: the decorators and hooks apply to the parent instance.
Object.assign(fastifyLock, {
  [Symbol.for("skip-override")]: true,
  [Symbol.for("fastify.display-name")]: "@holdfast/lock",
  [Symbol.for("plugin-meta")]: { name: "@holdfast/lock", fastify: ">=4.10" },
});

/** The options of a route. What one leaves out is that of the plugin. */
function routeTable(plugin: Readonly<Record<string, unknown>>): typeof MIDDLEWARE_OPTIONS {
  const rules = Object.entries(DEFAULTS).map(([name, rule]) => {
    return [name, { ...rule, default: plugin[name] }];
  });
  return { ...Object.fromEntries(rules), key: required(checkKey) };
}

function checkPluginLock(what: string, lock: unknown): void {
  checkLock(`${what} of fastifyLock()`, lock);
}

/** A key that is `undefined` by accident must not leave the route unlocked. */
function checkKey(what: string, key: unknown): void {
  if (key !== undefined) return KEY.check(what, key);
  throw new TypeError(
    "Cannot add a route whose 'config.lock' has no key: leave 'lock' out, or set it to NO_LOCK, if the " +
      "route needs no lock",
  );
}
