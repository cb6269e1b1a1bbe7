/**
 * Locks over HTTP for clients in other languages: a Fastify plugin. To run your own handlers under a
 * lock, use `./http` and the entries below it.
 *
 * @example Usage
 * ```ts ignore
 * import { lockRoutes } from "@holdfast/lock/lock-service";
 * import Fastify from "fastify";
 *
 * const app = Fastify();
 * await app.register(lockRoutes, {
 *   lock: locks,
 *   authorize: (request) => tenants.get(request.headers.authorization) ?? null,
 * });
 * await app.listen({ port: 8080 });
 * ```
 *
 * @module
 */
export { lockRoutes } from "./lock_routes.ts";
export {
  type Authorization,
  DEFAULT_LEASE_TTL_MS,
  DEFAULT_MAX_TTL_MS,
  DEFAULT_MAX_WAIT_MS,
  type LockRoutesOptions,
} from "./options.ts";
export type { LockRoutesApp, LockRoutesReply, LockRoutesRequest } from "./fastify_types.ts";
export type { NodeResponse } from "../http/internal/response_watch.ts";
export type { AttachableLock, DistributedLock } from "../core/distributed_lock.ts";
