/**
 * Counts the leases of a principal on Redis, without the lock service.
 *
 * @module
 */
import type { RedisServer } from "../servers/redis.ts";
import { pause } from "../servers/wait.ts";

/** Counts the locks that a principal holds, by their values on Redis. */
export async function held({ command }: RedisServer, principal: string): Promise<number> {
  const keys = await command("KEYS", "lock:*") as string[];
  if (keys.length === 0) return 0;
  const values = await command("MGET", ...keys) as (string | null)[];
  return values.filter((value) => value?.startsWith(`${principal}:`)).length;
}

/** Counts all the time, and remembers the largest count. */
export function watch(redis: RedisServer, principal: string) {
  const seen = { most: 0, looks: 0 };
  let isOver = false;
  const looking = (async () => {
    while (!isOver) {
      seen.most = Math.max(seen.most, await held(redis, principal));
      seen.looks++;
      await pause(2);
    }
  })();
  return {
    seen,
    async [Symbol.asyncDispose]() {
      isOver = true;
      await looking;
    },
  };
}
