/**
 * Finds Fastify routes with a lock that were added before the plugin had loaded: its `onRoute` hook has
 * not seen them, so they would run without their lock. The plugin calls this; see `http/fastify.ts`.
 *
 * @module
 */
import { LockSetupError } from "../../core/contract/errors.ts";
import { isNoLock } from "./key.ts";

/** The parts of a Fastify request that the guard uses. */
export interface GuardedRequest {
  /** The method of the request. */
  readonly method: string;
  /** The route of the request. */
  readonly routeOptions?: { readonly url?: string | undefined; readonly config?: object };
}

const WIRED = Symbol("holdfast lock");

/** Fastify's answer when there is no route. */
const NO_ROUTES = "(empty tree)";

const WHY =
  'it was added before fastifyLock had loaded: write "await app.register(fastifyLock, …)" ' +
  "before the routes";

/** Returns a route's config with the mark of a route that has our hooks. */
export function markWired(config: object | undefined): object {
  return { ...config, [WIRED]: true };
}

/** An `onRequest` hook: Fastify calls it for earlier routes of the same scope, too. */
export function refuseUnwired(
  request: GuardedRequest,
  _reply: unknown,
  done: (error?: Error) => void,
): void {
  const { config, url } = request.routeOptions ?? {};
  if (config === undefined || !("lock" in config) || WIRED in config || isNoLock(config.lock)) {
    return done();
  }
  done(new LockSetupError(`Cannot run ${request.method} ${url} without its lock: ${WHY}`));
}

/**
 * Checks at start-up that the plugin did not load after all routes: it would lock none of them.
 *
 * @param seenRoutes The number of routes that the `onRoute` hook has seen.
 * @param routes All routes of the server, as Fastify prints them.
 * @throws {LockSetupError} If there are routes, but none was seen.
 */
export function checkSeen(seenRoutes: number, routes: string): void {
  if (seenRoutes > 0 || routes.trim() === NO_ROUTES || routes.trim() === "") return;
  throw new LockSetupError(`Cannot lock any route of the server. For each of them, ${WHY}`);
}
