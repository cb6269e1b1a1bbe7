/** Ticks of a schedule in several processes on Redis, whose clocks are wrong. */
import { assertEquals } from "@std/assert";
import { runTicks } from "../../testing/recipes/ticks.ts";
import { untilShown, watchStalls } from "../../testing/processes/stalls.ts";
import { startRedis } from "../../testing/servers/redis.ts";
import { ENDING_TTL_MS, scaled } from "../../testing/time.ts";

/** Half of `keepMs`: a shorter stall loses no lease. */
const STALL_MS = Deno.env.get("HOLDFAST_SOAK") ? 4_000 : scaled(300);

for (const withTick of [true, false]) {
  const how = withTick ? "with the time of the tick" : "without the time of the tick";
  Deno.test(`runOnce() runs each tick in one of several processes, ${how}`, async () => {
    await using server = await startRedis();
    const { url } = server;
    const place = { strategy: "redis", client: "node-redis", url, keyPrefix: "lock:" } as const;
    await untilShown(async () => {
      using stalls = watchStalls();
      const counts = await runTicks({ ...place, ttlMs: ENDING_TTL_MS }, withTick, 0);
      const { twice, missed, failed } = counts;
      const isLost = failed.length > 0 && failed.every((text) => text.startsWith("LeaseLostError"));
      if (isLost && stalls.longestMs > STALL_MS) return "stalled";
      assertEquals({ twice, missed, failed }, { twice: [], missed: [], failed: [] });
      return "shown";
    });
  });
}
