/**
 * The keys that locks have left on a Redis server, and which of them expire as they should.
 *
 * @module
 */
import type { RedisCommand } from "../servers/redis.ts";
import {
  INBOX_PREFIX,
  LAST_TICKET_FIELD,
  LISTENING_PREFIX,
  PARKED_UNTIL_FIELD,
  QUEUE_LIFE_MS,
  TOMBSTONE_PREFIX,
  WAITER_PREFIX,
} from "./wire_names.ts";

/** Fields, or their prefixes, that may be left in the hash of a queue: all but waiters and the holder. */
const EXPIRING_FIELDS = [
  LAST_TICKET_FIELD,
  INBOX_PREFIX,
  LISTENING_PREFIX,
  PARKED_UNTIL_FIELD,
  TOMBSTONE_PREFIX,
];

/**
 * The keys whose names contain `part`, except those that expire as they should: last fencing tokens,
 * and a queue and its hash that contain only dead waiters and tombstones.
 */
export async function keysLeft(command: RedisCommand, part = ""): Promise<string[]> {
  const left: string[] = [];
  for (const key of await keysWith(command, part)) {
    const kind = kindOf(key);
    const leftMs = Number(await command("PTTL", key)); // -1: no TTL; -2: expired just now
    if (leftMs === -2 || (kind === "token" && leftMs > 0)) continue;
    const expires = kind !== undefined && leftMs > 0 && leftMs <= QUEUE_LIFE_MS;
    const isDead = kind === "queue" ? isDeadQueue : isDeadHash;
    if (!expires || !await isDead(command, key)) left.push(key);
  }
  return left;
}

/** The keys of the last fencing tokens. */
export async function tokensLeft(command: RedisCommand): Promise<string[]> {
  return (await keysWith(command, "")).filter((key) => kindOf(key) === "token");
}

/** Whether a key is a queue or its hash. Both expire unless a call asks again. */
export function isOfQueue(key: string): boolean {
  const kind = kindOf(key);
  return kind === "queue" || kind === "waiters";
}

function kindOf(key: string): string | undefined {
  return /^holdfast:(?:1:\{.*\}:(queue|waiters)|\{.*\}:(token)):/s.exec(key)?.slice(1).find(
    Boolean,
  );
}

/** Whether each entry of the queue has a record in the hash, and an inbox without a lease. */
async function isDeadQueue(command: RedisCommand, key: string): Promise<boolean> {
  const values = await command("ZRANGE", key, 0, -1) as string[];
  const fields = await fieldsOf(command, key.replace(/:queue:/, ":waiters:"));
  return values.every((value) => {
    const record = fields.get(`${WAITER_PREFIX}${value}`);
    return record !== undefined && !isAlive(fields, record);
  });
}

/** Whether the hash has no holder, no waiter whose inbox has a lease, and no unknown field. */
async function isDeadHash(command: RedisCommand, key: string): Promise<boolean> {
  const fields = await fieldsOf(command, key);
  return [...fields].every(([field, value]) => {
    if (field.startsWith(TOMBSTONE_PREFIX)) return Number(value) <= Date.now() + QUEUE_LIFE_MS;
    if (field.startsWith(WAITER_PREFIX)) return !isAlive(fields, value);
    return EXPIRING_FIELDS.some((prefix) => field.startsWith(prefix));
  });
}

async function fieldsOf(command: RedisCommand, key: string): Promise<Map<string, string>> {
  const list = await command("HGETALL", key) as string[];
  const fields = new Map<string, string>();
  for (let i = 0; i < list.length; i += 2) fields.set(list[i]!, list[i + 1]!);
  return fields;
}

/** Whether the inbox in the record of a waiter has a lease. */
function isAlive(fields: ReadonlyMap<string, string>, record: string): boolean {
  const inbox = /^\d+ \d+ \d+ (\S+)/.exec(record)?.[1];
  return Number(fields.get(`${INBOX_PREFIX}${inbox}`)) > Date.now();
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
