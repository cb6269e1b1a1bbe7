/**
 * What locks have left on a Redis server when all are gone: keys, connections, channels.
 *
 * @module
 */
import { assert, assertEquals } from "@std/assert";
import type { RedisServer } from "../servers/redis.ts";
import { waitUntil } from "../servers/wait.ts";
import { fencesLeft, keysLeft, QUEUE_LIFE_MS } from "./residue.ts";

/** How long in ms the last fencing token outlives its lock. */
const FENCE_LIFE_MS = 60_000;
/** Longest TTL that most tests use, in ms. */
const TTL_MS = 60_000;
const SOAK = Deno.env.get("HOLDFAST_SOAK") !== undefined;

/**
 * Waits until nothing is left but what goes by itself: fencing tokens, a minute after the longest TTL
 * that was asked for, and hashes with tombstones and the dead, within 30 s.
 */
export async function nothingLeft({ command }: RedisServer, ttlMs = TTL_MS): Promise<void> {
  await waitUntil("no key is left", async () => (await keysLeft(command)).length === 0);
  await nobodyLeft(command);
  for (const key of await fencesLeft(command)) {
    const leftMs = Number(await command("PTTL", key));
    assert(leftMs !== -1 && leftMs <= FENCE_LIFE_MS + ttlMs, `${key}: ${leftMs} ms`);
  }
}

/**
 * The plain case: nobody was killed or cut off. Only fencing tokens are left, but for tombstones of
 * those whose grant overtook the answer of an ask.
 */
export async function onlyFencesLeft(server: RedisServer, ttlMs: number): Promise<void> {
  await nothingLeft(server, ttlMs);
  const { command } = server;
  const fences = await fencesLeft(command);
  for (const key of await command("KEYS", "*") as string[]) {
    if (fences.includes(key)) continue;
    const kinds = (await command("HKEYS", key) as string[]).map((field) => field[0]);
    assert(kinds.includes("t") && !kinds.includes("d"), `${key} is left: ${kinds}`);
  }
}

/** The same after processes were killed: their places expire. The soak waits until all have. */
export async function nothingLasts(server: RedisServer, ttlMs = TTL_MS): Promise<void> {
  const { command } = server;
  await nobodyLeft(command);
  for (const key of await keysLeft(command)) {
    const leftMs = Number(await command("PTTL", key));
    assert(/:[qw]:/.test(key), `${key} is left`);
    assert(leftMs === -2 || (leftMs > 0 && leftMs <= QUEUE_LIFE_MS), `${key}: ${leftMs} ms`);
  }
  if (!SOAK) return;
  const gone = async () => (await keysLeft(command)).length === 0;
  await waitUntil("what the dead left is gone", gone, 2 * QUEUE_LIFE_MS);
  await nothingLeft(server, ttlMs);
}

/** A minute after the last TTL the server is empty. The soak waits for that. */
export async function nothingAtLast(server: RedisServer, ttlMs: number): Promise<void> {
  await nothingLeft(server, ttlMs);
  if (!SOAK) return;
  const isEmpty = async () => await server.command("DBSIZE") === 0;
  await waitUntil("the server is empty", isEmpty, FENCE_LIFE_MS + ttlMs + 5_000);
}

/** The observer is the only client, and no channel is open. */
async function nobodyLeft(command: RedisServer["command"]): Promise<void> {
  await waitUntil("all clients are gone", async () => {
    return String(await command("CLIENT", "LIST")).trim().split("\n").length === 1;
  });
  assertEquals(await command("PUBSUB", "CHANNELS"), []);
}

/** The inboxes that have waiters in the queue of a lock, and have proved that they listen. */
export async function provenInboxes(
  command: RedisServer["command"],
  details: string,
): Promise<string[]> {
  const fields = await command("HKEYS", details) as string[];
  return fields.filter((field) => field.startsWith("p")).map((field) => field.slice(1));
}

/** How many listen to an inbox. */
export async function listeners(command: RedisServer["command"], inbox: string): Promise<number> {
  const [, count] = await command("PUBSUB", "NUMSUB", `holdfast:inbox:${inbox}`) as [
    string,
    number,
  ];
  return count;
}
