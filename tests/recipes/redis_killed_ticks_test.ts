/** Ticks of a schedule on Redis, whose winners are killed: the mark survives its process. */
import { assertEquals } from "@std/assert";
import { KILLS, runTicks } from "../../testing/recipes/ticks.ts";
import { startRedis } from "../../testing/servers/redis.ts";
import { ENDING_TTL_MS } from "../../testing/time.ts";

const SOAK = Boolean(Deno.env.get("HOLDFAST_SOAK"));
for (const withTick of [true, false]) {
  const how = withTick ? "with the time of the tick" : "without the time of the tick";
  Deno.test({
    name: `runOnce() on Redis runs no tick twice when winners are killed, ${how}` +
      (SOAK ? "" : " [soak only]"),
    ignore: !SOAK,
    fn: async () => {
      await using server = await startRedis();
      const { url } = server;
      const place = { strategy: "redis", client: "node-redis", url, keyPrefix: "lock:" } as const;
      const counts = await runTicks({ ...place, ttlMs: ENDING_TTL_MS }, withTick, KILLS);
      const { twice, missedAlive, failed } = counts;
      assertEquals({ twice, missedAlive, failed }, { twice: [], missedAlive: [], failed: [] });
    },
  });
}
