/**
 * Locks whose keys hold something that no lock of this library has written.
 */
import { assertEquals, assertMatch } from "@std/assert";
import { type RedisClient, RedisLock } from "../../redis/mod.ts";
import { gated, type Gates } from "../../testing/redis/gated_client.ts";
import { openRedisClient } from "../../testing/redis/clients.ts";
import { type RedisCommand, startRedis } from "../../testing/servers/redis.ts";
import { waitUntil } from "../../testing/servers/wait.ts";

interface Scene {
  /** Its keys have no prefix. */
  readonly lock: RedisLock;
  readonly client: RedisClient;
  readonly command: RedisCommand;
  /** All scripts sent by the lock so far. */
  readonly sent: Gates["sent"];
}

/** Plays a scene. Returns the warnings of its lock. */
async function warningsOf(play: (scene: Scene) => Promise<void>): Promise<string[]> {
  const warnings: string[] = [];
  await using server = await startRedis();
  const { client, close } = await openRedisClient("node-redis", server.url);
  {
    const onWarning = (text: string) => void warnings.push(text);
    const { client: seen, gates: { sent } } = gated(client);
    await using lock = new RedisLock(seen, { keyPrefix: "", onWarning });
    await play({ lock, client, command: server.command, sent });
    // Commands are answered in order: then the holder has been looked at, too.
    for (let i = 0; i < 2; i++) await lock.query("n");
  }
  await close();
  return warnings;
}

Deno.test("RedisLock warns when the key of a lock is a string without a TTL", async () => {
  const warnings = await warningsOf(async ({ lock, command }) => {
    await command("SET", "orders:42", "paid");
    assertEquals(await lock.tryAcquire("orders:42"), null);
    assertEquals(await lock.tryAcquire("orders:42", { waitMs: 50 }), null);
  });
  assertEquals(warnings.length, 1);
  assertMatch(warnings[0]!, /"orders:42", is a string without a TTL .* use another 'keyPrefix'$/);
});

Deno.test("RedisLock warns of 100 such keys at most, and then looks at none", async () => {
  const names = Array.from({ length: 102 }, (_, i) => `data:${i}`);
  let looks = 0;
  const warnings = await warningsOf(async ({ lock, command, sent }) => {
    await lock.query("n"); // the server knows the script now
    const before = sent.length;
    for (const name of [...names, ...names]) {
      await command("SET", name, "paid");
      assertEquals(await lock.tryAcquire(name), null);
      await lock.query("n"); // answered after the look at the holder
    }
    const queries = sent.slice(before).filter(({ script }) => script === "query");
    looks = queries.length - 2 * names.length;
  });
  assertEquals([warnings.length, looks], [100, 100]);
});

Deno.test("RedisLock does not warn of the locks of other libraries, or of its own", async () => {
  const warnings = await warningsOf(async ({ lock, command, client }) => {
    await command("SET", "expiring", "paid", "PX", 60_000);
    await command("SET", "redis-py", "0f3fbc6f2e4d4b7c9f6e2b8f1c1d7a55");
    await using other = new RedisLock(client, { keyPrefix: "" });
    await using _held = await other.acquire("persisted");
    await command("PERSIST", "persisted");
    for (const name of ["expiring", "redis-py", "persisted"]) {
      assertEquals(await lock.tryAcquire(name), null);
      assertEquals(await lock.tryAcquire(name, { waitMs: 50 }), null);
    }
  });
  assertEquals(warnings, []);
});

Deno.test("RedisLock grants the lock when the data at its key is deleted", async () => {
  await warningsOf(async ({ lock, command }) => {
    await command("SET", "orders:42", "paid");
    let waits = 0;
    const waiting = lock.acquire("orders:42", { onWait: () => void waits++ });
    await waitUntil("it waits", () => waits > 0);
    await command("DEL", "orders:42");
    await (await waiting).release();
  });
});
