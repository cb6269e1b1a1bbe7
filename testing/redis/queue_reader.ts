/**
 * Reads the queue of a lock on a Redis server. No other test or part knows its format.
 *
 * @module
 */
import type { LockKeys } from "../../redis/protocol/keys.ts";
import type { RedisCommand } from "../servers/redis.ts";

/** How many waiters have a place in the queue. */
export async function queueLength(
  command: RedisCommand,
  { queue }: Pick<LockKeys, "queue">,
): Promise<number> {
  return Number(await command("ZCARD", queue));
}

/** The owner values of these waiters, in order. */
export async function queuedValues(
  command: RedisCommand,
  { queue }: Pick<LockKeys, "queue">,
): Promise<string[]> {
  return await command("ZRANGE", queue, 0, -1) as string[];
}
