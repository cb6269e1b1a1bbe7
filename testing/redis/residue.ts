/**
 * What locks have left on a Redis server.
 *
 * @module
 */
import type { RedisCommand } from "../servers/redis.ts";

/** Longest life in ms of what the dead leave in a queue, tombstones among it. */
export const QUEUE_LIFE_MS = 30_000;

/** What the hash of a queue holds but for waiters (`d`) and the holder (`h`). */
const GOES_BY_ITSELF = /^(n$|i|p|t)/;

/**
 * The keys whose names contain `part`, but for what goes by itself, and says when: last fencing tokens,
 * and the hash of a queue in which nobody is left but tombstones and the dead.
 */
export async function keysLeft(command: RedisCommand, part = ""): Promise<string[]> {
  const left: string[] = [];
  for (const key of await keysWith(command, part)) {
    const kind = kindOf(key);
    const leftMs = Number(await command("PTTL", key)); // -1: for ever; -2: just gone
    if (leftMs === -2 || (kind === "f" && leftMs > 0)) continue;
    const goes = kind === "w" && leftMs > 0 && leftMs <= QUEUE_LIFE_MS;
    if (!goes || !await isDead(command, key)) left.push(key);
  }
  return left;
}

/** The keys of last fencing tokens. */
export async function fencesLeft(command: RedisCommand): Promise<string[]> {
  return (await keysWith(command, "")).filter((key) => kindOf(key) === "f");
}

function kindOf(key: string): string | undefined {
  return /^holdfast:\{.*\}:([fqw]):/s.exec(key)?.[1];
}

/** Whether no holder and no waiter whose inbox has a lease stands in the hash, nor anything unknown. */
async function isDead(command: RedisCommand, key: string): Promise<boolean> {
  const list = await command("HGETALL", key) as string[];
  const fields = new Map<string, string>();
  for (let i = 0; i < list.length; i += 2) fields.set(list[i]!, list[i + 1]!);
  return [...fields].every(([field, value]) => {
    if (field.startsWith("t")) return Number(value) <= Date.now() + QUEUE_LIFE_MS;
    if (!field.startsWith("d")) return GOES_BY_ITSELF.test(field);
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
