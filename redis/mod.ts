/**
 * Locks on Redis and Valkey. The client is your own, in an adapter: `./redis/node-redis`,
 * `./redis/ioredis`, `./redis/deno-redis`, or any object with the methods of {@linkcode RedisClient}.
 *
 * @example Usage
 * ```ts ignore
 * import { RedisLock } from "@holdfast/lock/redis";
 * import { nodeRedis } from "@holdfast/lock/redis/node-redis";
 * import { createClient } from "redis";
 *
 * const client = await createClient({ url: "redis://127.0.0.1:6379" })
 *   .on("error", console.error).connect();
 * {
 *   await using locks = new RedisLock(nodeRedis(client));
 *   await locks.request("orders:42", async (lease) => {
 *     await fetch("https://example.com/pay", { signal: lease.signal });
 *   });
 * }
 * client.destroy();
 * ```
 *
 * @module
 */
export type { RenewalLate } from "../core/contract/distributed_lock.ts";
export type { RedisClient } from "./client.ts";
export { RedisLock } from "./redis_lock.ts";
export { type RedisLockOptions } from "./options.ts";
