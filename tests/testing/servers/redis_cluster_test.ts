import { assert, assertEquals, assertRejects } from "@std/assert";
import { isAlive } from "../../../testing/servers/process_checks.ts";
import { redisClusterSkip, startRedisCluster } from "../../../testing/servers/redis_cluster.ts";

const skip = await redisClusterSkip();

Deno.test({
  name: `startRedisCluster() starts three masters that share the slots${skip ? ` [${skip}]` : ""}`,
  ignore: skip !== undefined,
  async fn() {
    const cluster = await startRedisCluster();
    const keys = Array.from({ length: 30 }, (_, i) => `key-${i}`);
    const used = new Set<number>();
    for (const key of keys) {
      const master = await cluster.masterOf(key);
      used.add(master.port);
      assertEquals(await master.command("SET", key, "x"), "OK");
    }
    assertEquals(used.size, 3);
    const pids = cluster.masters.map(({ pid }) => pid);
    await cluster[Symbol.asyncDispose]();
    for (const pid of pids) assertEquals(await isAlive(pid), false);
  },
});

Deno.test({
  name: `RedisCluster.moveSlot() moves a slot with its keys${skip ? ` [${skip}]` : ""}`,
  ignore: skip !== undefined,
  async fn() {
    await using cluster = await startRedisCluster();
    const source = await cluster.masterOf("k");
    const target = cluster.masters.find((master) => master !== source)!;
    await source.command("SET", "k", "kept");
    await cluster.moveSlot("k", target);
    assertEquals(await target.command("GET", "k"), "kept");
    assert(await cluster.masterOf("k") === target);
    await assertRejects(() => source.command("GET", "k"), Error, "MOVED");
  },
});
