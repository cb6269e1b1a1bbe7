/**
 * What locks have left on a Redis server when all are gone: keys, connections, channels.
 *
 * @module
 */
import { assert, assertEquals } from "@std/assert";
import type { RedisServer } from "../servers/redis.ts";
import { waitUntil } from "../servers/wait.ts";
import { keysLeft } from "./residue.ts";

/** Longest life in ms of what the dead leave in a queue. */
const QUEUE_LIFE_MS = 30_000;

/** Waits until nothing is left but fencing keys and tombstones, and the observer's connection. */
export async function nothingLeft({ command }: RedisServer): Promise<void> {
  await waitUntil("no key is left", async () => (await keysLeft(command)).length === 0);
  await nobodyLeft(command);
}

/**
 * The same after processes were killed: nobody takes their places away, but they expire. The soak
 * waits for that.
 */
export async function nothingLasts({ command }: RedisServer): Promise<void> {
  await nobodyLeft(command);
  for (const key of await keysLeft(command)) {
    const leftMs = Number(await command("PTTL", key));
    assert(/:[qw]:/.test(key), `${key} is left`);
    assert(leftMs === -2 || (leftMs > 0 && leftMs <= QUEUE_LIFE_MS), `${key}: ${leftMs} ms`);
  }
  if (!Deno.env.get("HOLDFAST_SOAK")) return;
  const gone = async () => (await keysLeft(command)).length === 0;
  await waitUntil("what the dead left is gone", gone, 2 * QUEUE_LIFE_MS);
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
