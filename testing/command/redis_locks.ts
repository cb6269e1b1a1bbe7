/**
 * A lock of the test's own process on the server that `holdfast` uses.
 *
 * @module
 */
import { createClient } from "redis";
import { nodeRedis } from "../../redis/clients/node_redis.ts";
import { RedisLock } from "../../redis/mod.ts";
import { noteOpen } from "../redis/client_timers.ts";
import type { RedisServer } from "../servers/redis.ts";
import { CONDITION_BOUND_MS } from "../time.ts";

/** Opens it. Disposal also closes its client. */
export async function lockOn({ url }: Pick<RedisServer, "url">) {
  const client = createClient({ url }).on("error", () => {});
  await client.connect();
  const locks = new RedisLock(nodeRedis(client), { unavailableAfterMs: CONDITION_BOUND_MS });
  const close = noteOpen(() => client.destroy());
  return {
    locks,
    async [Symbol.asyncDispose]() {
      await locks[Symbol.asyncDispose]();
      await close();
    },
  };
}
