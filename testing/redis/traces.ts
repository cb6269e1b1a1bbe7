/**
 * Asserts that disposed locks leave no keys, connections or channels on a Redis server.
 *
 * @module
 */
import { assert, assertEquals } from "@std/assert";
import type { RedisCommand, RedisServer } from "../servers/redis.ts";
import { waitUntil } from "../servers/wait.ts";
import { LONG_TTL_MS } from "../time.ts";
import { INBOX_CHANNEL_PREFIX } from "../../redis/protocol/keys.ts";
import { readMember } from "./queue_reader.ts";
import { isOfQueue, keysLeft, tokensLeft } from "./residue.ts";
import {
  LISTENING_PREFIX,
  QUEUE_LIFE_MS,
  TOKEN_OUTLIVES_LOCK_MS,
  TOMBSTONE_PREFIX,
  WAITER_PREFIX,
} from "./wire_names.ts";

/** Longest TTL that most tests use, in ms. */
const TTL_MS = LONG_TTL_MS;
const SOAK = Boolean(Deno.env.get("HOLDFAST_SOAK"));

/**
 * Waits until only keys are left that expire: fencing tokens, a minute after the longest TTL that was
 * used, and queues with tombstones and dead waiters, within 90 s.
 */
export async function nothingLeft({ command }: RedisServer, ttlMs = TTL_MS): Promise<void> {
  await waitUntil("no key is left", async () => (await keysLeft(command)).length === 0);
  await nobodyLeft(command);
  for (const key of await tokensLeft(command)) {
    const leftMs = Number(await command("PTTL", key));
    assert(leftMs !== -1 && leftMs <= TOKEN_OUTLIVES_LOCK_MS + ttlMs, `${key}: ${leftMs} ms`);
  }
}

/**
 * The same if no process was killed or cut off: only fencing tokens are left, and tombstones of calls
 * whose grant message overtook the answer to an ask.
 */
export async function onlyFencesLeft(server: RedisServer, ttlMs: number): Promise<void> {
  await nothingLeft(server, ttlMs);
  const { command } = server;
  const tokens = await tokensLeft(command);
  for (const key of await command("KEYS", "*") as string[]) {
    if (tokens.includes(key)) continue;
    if (await command("TYPE", key) === "zset") await onlyTombstonesIn(command, key);
    else await noWaiterIn(command, key);
  }
}

async function onlyTombstonesIn(command: RedisCommand, queue: string): Promise<void> {
  const members = await command("ZRANGE", queue, 0, -1) as string[];
  const kinds = new Set(members.map((member) => readMember(member).kind));
  assertEquals([...kinds], ["tombstone"], `${queue} is left: ${members}`);
}

async function noWaiterIn(command: RedisCommand, waiters: string): Promise<void> {
  const fields = await command("HKEYS", waiters) as string[];
  const has = (prefix: string) => fields.some((field) => field.startsWith(prefix));
  assert(has(TOMBSTONE_PREFIX) && !has(WAITER_PREFIX), `${waiters} is left: ${fields}`);
}

/** The same after processes were killed: their places in the queue expire. The soak waits for that. */
export async function nothingLasts(server: RedisServer, ttlMs = TTL_MS): Promise<void> {
  const { command } = server;
  await nobodyLeft(command);
  const isOver = async () => (await keysLeft(command)).every(isOfQueue);
  await waitUntil("the claims of dead waiters are over", isOver);
  for (const key of await keysLeft(command)) {
    const leftMs = Number(await command("PTTL", key));
    assert(leftMs === -2 || (leftMs > 0 && leftMs <= QUEUE_LIFE_MS), `${key}: ${leftMs} ms`);
  }
  if (!SOAK) return;
  const gone = async () => (await keysLeft(command)).length === 0;
  await waitUntil("the keys of dead processes have expired", gone, 2 * QUEUE_LIFE_MS);
  await nothingLeft(server, ttlMs);
}

/** The same. The soak waits until the server is empty. */
export async function nothingAtLast(server: RedisServer, ttlMs: number): Promise<void> {
  await nothingLeft(server, ttlMs);
  if (!SOAK) return;
  const isEmpty = async () => await server.command("DBSIZE") === 0;
  const longestMs = Math.max(TOKEN_OUTLIVES_LOCK_MS + ttlMs, QUEUE_LIFE_MS); // tombstones last as long as a queue
  await waitUntil("the server is empty", isEmpty, longestMs + 60_000);
}

/** Waits until the observer is the only client, and no channel has a subscriber. */
async function nobodyLeft(command: RedisServer["command"]): Promise<void> {
  let clients = "";
  await waitUntil("all clients are gone", async () => {
    clients = String(await command("CLIENT", "LIST")).trim();
    return clients.split("\n").length === 1;
  }).catch((error) => {
    throw new Error(`Clients are left:\n${clients}`, { cause: error });
  });
  assertEquals(await command("PUBSUB", "CHANNELS"), []);
}

/** The ids of inboxes that the waiters hash lists as seen with a subscriber. */
export async function provenInboxes(
  command: RedisServer["command"],
  waiters: string,
): Promise<string[]> {
  const fields = await command("HKEYS", waiters) as string[];
  return fields.filter((field) => field.startsWith(LISTENING_PREFIX))
    .map((field) => field.slice(LISTENING_PREFIX.length));
}

/** The number of subscribers of an inbox. */
export async function listeners(command: RedisServer["command"], inbox: string): Promise<number> {
  const channel = `${INBOX_CHANNEL_PREFIX}${inbox}`;
  const [, count] = await command("PUBSUB", "NUMSUB", channel) as [string, number];
  return count;
}
