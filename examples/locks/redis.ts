/**
 * Opens locks on a Redis server.
 *
 * @module
 */
import { RedisLock } from "@holdfast/lock/redis";
import { nodeRedis } from "@holdfast/lock/redis/node-redis";
import { createClient } from "redis";
import type { BackendOf, OpenLock } from "../open_lock.ts";

/** How long in ms a dead holder blocks the others. A live holder renews its lease. */
const TTL_MS = 2_000;

/** Connects a client and opens the lock on it. */
export async function open({ url, keyPrefix }: BackendOf<"redis">): Promise<OpenLock> {
  // Without a listener, an error of the connection would end the process.
  const client = createClient({ url }).on("error", () => {});
  await client.connect();
  const locks = new RedisLock(nodeRedis(client), { keyPrefix, ttlMs: TTL_MS });
  return {
    locks,
    async [Symbol.asyncDispose]() {
      await locks[Symbol.asyncDispose](); // first, as it still needs the client
      client.destroy();
    },
  };
}
