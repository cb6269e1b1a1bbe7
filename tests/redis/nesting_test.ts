/**
 * Nested calls under one owner id.
 */
import { assert, assertEquals, assertRejects } from "@std/assert";
import { LeaseLostError } from "../../mod.ts";
import { RedisLock } from "../../redis/mod.ts";
import { openRedisClient } from "../../testing/redis/clients.ts";
import { startRedis } from "../../testing/servers/redis.ts";

Deno.test("RedisLock.acquire() under the owner id of the enclosing request() takes its lease over, without a warning", async () => {
  await using server = await startRedis();
  const { client, close } = await openRedisClient("node-redis", server.url);
  const warnings: string[] = [];
  {
    await using lock = new RedisLock(client, { onWarning: (text) => void warnings.push(text) });
    const outer = lock.request("n", { ownerId: "job-7" }, async (lease) => {
      const inner = await lock.acquire("n", { ownerId: "job-7" });
      assert(inner.fencingToken > lease.fencingToken);
      assert(!lease.isHeld);
      assertEquals(await inner.release(), true);
    });
    await assertRejects(() => outer, LeaseLostError);
  }
  assertEquals(warnings, []);
  await close();
});
