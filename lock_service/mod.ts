/**
 * Locks over HTTP for clients in other languages: a Fastify plugin. For locks around your own handlers, use `./http`.
 *
 * @example Usage
 * ```ts ignore
 * import { lockRoutes } from "@holdfast/lock/lock-service";
 * import { RedisLock } from "@holdfast/lock/redis";
 * import { ioredis } from "@holdfast/lock/redis/ioredis";
 * import Fastify from "fastify";
 * import { Redis } from "ioredis";
 * import { assertEquals } from "@std/assert";
 *
 * const client = new Redis("redis://127.0.0.1:6379").on("error", console.error);
 * const locks = new RedisLock(ioredis(client));
 * const tenants = new Map([["Bearer s3cret", "billing"]]);
 *
 * const app = Fastify();
 * await app.register(lockRoutes, {
 *   lock: locks,
 *   authorize: ({ headers }) => tenants.get(String(headers.authorization)),
 * });
 * await app.listen({ port: 8080 });
 *
 * const response = await fetch("http://localhost:8080/lock/orders:42/9f3c", {
 *   method: "PUT",
 *   headers: { authorization: "Bearer s3cret" },
 *   body: JSON.stringify({ ttlMs: 20_000, waitMs: 5_000 }),
 * });
 * assertEquals((await response.json()).key, "orders:42");
 *
 * await app.close();
 * await locks[Symbol.asyncDispose]();
 * client.disconnect();
 * ```
 *
 * @module
 */
export { lockRoutes } from "./lock_routes.ts";
export type { Authorization, LockRoutesOptions } from "./options.ts";
export type { LockRoutesApp, LockRoutesReply, LockRoutesRequest } from "./fastify_types.ts";
export type { NodeResponse } from "../http/shared/server.ts";
export type { AttachableLock, DistributedLock } from "../core/contract/distributed_lock.ts";
