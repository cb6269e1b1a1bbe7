/**
 * Nested calls under one owner id.
 */
import { assert, assertEquals } from "@std/assert";
import { RedisLock } from "../../redis/mod.ts";
import { openRedisClient } from "../../testing/redis/clients.ts";
import { startRedis } from "../../testing/servers/redis.ts";

Deno.test("RedisLock.acquire() under the owner id of the enclosing request() shares its lease, without a warning", async () => {
  await using server = await startRedis();
  const { client, close } = await openRedisClient("node-redis", server.url);
  const warnings: string[] = [];
  {
    await using lock = new RedisLock(client, { onWarning: (text) => void warnings.push(text) });
    await lock.request("n", { ownerId: "job-7" }, async (lease) => {
      assert(await lock.acquire("n", { ownerId: "job-7" }) === lease);
    });
  }
  assertEquals(warnings, []);
  await close();
});
