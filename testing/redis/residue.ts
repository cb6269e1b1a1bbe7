/**
 * The keys that locks have left on a Redis server, and which of them expire as they should.
 *
 * @module
 */
import type { RedisCommand } from "../servers/redis.ts";
import {
  HOLDER_FIELD,
  INBOX_PREFIX,
  LAST_TICKET_FIELD,
  LISTENING_PREFIX,
  PARKED_PREFIX,
  QUEUE_LIFE_MS,
  SHARED_PREFIX,
  SWEPT_FIELD,
  TOMBSTONE_PREFIX,
  UNCONFIRMED,
  WAITER_PREFIX,
} from "./wire_names.ts";
import { readMember } from "./queue_reader.ts";

/** Fields, or their prefixes, that may be left in the hash of a queue: all but waiters and the holder. */
const EXPIRING_FIELDS = [
  LAST_TICKET_FIELD,
  SWEPT_FIELD,
  INBOX_PREFIX,
  LISTENING_PREFIX,
  PARKED_PREFIX,
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
    const expires = kind !== undefined && leftMs > 0 &&
      (leftMs <= QUEUE_LIFE_MS || await hasHolders(command, key));
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

/** Whether each waiter in the queue has a record in the hash, and each inbox in it has no lease. */
async function isDeadQueue(command: RedisCommand, key: string): Promise<boolean> {
  const members = await command("ZRANGE", key, 0, -1) as string[];
  const fields = await fieldsOf(command, key.replace(/:queue:/, ":waiters:"));
  return members.map(readMember).every((member) => {
    if (member.kind === "tombstone") return true;
    if (member.kind === "holder") return member.untilMs <= Date.now();
    if (member.kind === "by_ticket") return fields.has(`${WAITER_PREFIX}${member.value}`);
    return !hasLease(fields, member.inbox);
  });
}

/** Whether the hash has no confirmed holder, no waiter whose inbox has a lease, and no unknown field. */
async function isDeadHash(command: RedisCommand, key: string): Promise<boolean> {
  const fields = await fieldsOf(command, key);
  return [...fields].every(([field, value]) => {
    if (field.startsWith(SHARED_PREFIX)) return Number(value.split(" ")[1]) <= Date.now();
    if (field.startsWith(TOMBSTONE_PREFIX)) return Number(value) <= Date.now() + QUEUE_LIFE_MS;
    if (field.startsWith(WAITER_PREFIX)) return !isAlive(fields, value);
    // A dead waiter may get the lock for a claim: the key of the lock tells when that is over.
    if (field === HOLDER_FIELD) return value.startsWith(UNCONFIRMED);
    return EXPIRING_FIELDS.some((prefix) => field.startsWith(prefix));
  });
}

/** Whether a queue or its hash has shared holders that have died: it lives as long as their leases would have. */
async function hasHolders(command: RedisCommand, key: string): Promise<boolean> {
  const queue = key.replace(/:waiters:/, ":queue:");
  return Number(await command("ZLEXCOUNT", queue, "[holder ", "(holder!")) > 0;
}

async function fieldsOf(command: RedisCommand, key: string): Promise<Map<string, string>> {
  const list = await command("HGETALL", key) as string[];
  const fields = new Map<string, string>();
  for (let i = 0; i < list.length; i += 2) fields.set(list[i]!, list[i + 1]!);
  return fields;
}

/** Whether the inbox in the record of a waiter has a lease. */
function isAlive(fields: ReadonlyMap<string, string>, record: string): boolean {
  return hasLease(fields, /^\d+ \d+ \d+ (\S+)/.exec(record)?.[1]);
}

function hasLease(fields: ReadonlyMap<string, string>, inbox: string | undefined): boolean {
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
