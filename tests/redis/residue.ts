/**
 * What locks have left on a Redis server.
 *
 * @module
 */
import type { RedisCommand } from "../servers/redis.ts";

/**
 * The keys whose names contain `part`, but for what goes by itself: last fencing tokens, and the hash of
 * a queue in which nobody is left but tombstones and the dead.
 */
export async function keysLeft(command: RedisCommand, part = ""): Promise<string[]> {
  const left: string[] = [];
  for (const key of await keysWith(command, part)) {
    const kind = /^holdfast:\{.*\}:([fqw]):/s.exec(key)?.[1];
    if (kind === "f" || (kind === "w" && await isDead(command, key))) continue;
    left.push(key);
  }
  return left;
}

/** Whether no holder and no waiter whose inbox has a lease stands in the hash. */
async function isDead(command: RedisCommand, key: string): Promise<boolean> {
  const list = await command("HGETALL", key) as string[];
  const fields = new Map<string, string>();
  for (let i = 0; i < list.length; i += 2) fields.set(list[i]!, list[i + 1]!);
  return [...fields].every(([field, value]) => {
    if (field === "h") return false;
    if (!field.startsWith("d")) return true;
    const inbox = /^\d+ \d+ \d+ (.*)$/.exec(value)?.[1];
    return !(Number(fields.get(`i${inbox}`)) > Date.now());
  });
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
