/** Ticks of a schedule in several processes on Redis, whose clocks are wrong. */
import { assertEquals } from "@std/assert";
import { runTicks } from "../../testing/recipes/ticks.ts";
import { startRedis } from "../../testing/servers/redis.ts";
import { ENDING_TTL_MS } from "../../testing/time.ts";

for (const withTick of [true, false]) {
  const how = withTick ? "with the time of the tick" : "without the time of the tick";
  Deno.test(`runOnce() runs each tick in one of several processes, ${how}`, async () => {
    await using server = await startRedis();
    const { url } = server;
    const place = { strategy: "redis", client: "node-redis", url, keyPrefix: "lock:" } as const;
    const counts = await runTicks({ ...place, ttlMs: ENDING_TTL_MS }, withTick, 0);
    const { twice, missed, failed } = counts;
    assertEquals({ twice, missed, failed }, { twice: [], missed: [], failed: [] });
  });
}
