/**
 * What locks have left on a Redis server.
 *
 * @module
 */
import type { RedisCommand } from "../servers/redis.ts";

/** The keys whose names contain `part`, but for last fencing tokens, and tombstones while they last (with their hash). */
export async function keysLeft(command: RedisCommand, part = ""): Promise<string[]> {
  const left: string[] = [];
  for (const key of await keysWith(command, part)) {
    if (/^holdfast:\{.*\}:f:/s.test(key)) continue;
    const isTombstones = /^holdfast:\{.*\}:w:/s.test(key) &&
      (await command("HKEYS", key) as string[]).every((field) => /^[ntip]/.test(field));
    if (!isTombstones) left.push(key);
  }
  return left;
}

async function keysWith(command: RedisCommand, part: string): Promise<string[]> {
  const keys: string[] = [];
  let cursor = "0";
  do {
    const reply = await command("SCAN", cursor, "MATCH", `*${part}*`, "COUNT", 1_000);
    const [next, found] = reply as [string, string[]];
    keys.push(...found);
    cursor = next;
  } while (cursor !== "0");
  return keys;
}
