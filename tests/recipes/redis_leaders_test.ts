/** Leaders in several processes on Redis, under kills, freezes and partitions. */
import { checkLeaders } from "../../testing/recipes/leaders.ts";
import { startRedis } from "../../testing/servers/redis.ts";
import { ENDING_TTL_MS } from "../../testing/time.ts";

const IS_SOAK = Boolean(Deno.env.get("HOLDFAST_SOAK"));

Deno.test("lead() has never two leaders with a valid lease under kills, freezes and partitions", async () => {
  await using server = await startRedis();
  await checkLeaders({
    server,
    spec: ({ hostname, port }) => ({
      ...{ strategy: "redis", client: "node-redis", keyPrefix: "lock:" } as const,
      ...{ url: `redis://${hostname}:${port}`, ttlMs: ENDING_TTL_MS },
    }),
    candidates: IS_SOAK ? 5 : 3,
    lastsMs: IS_SOAK ? 3_600_000 : 0,
    pauseMs: IS_SOAK ? 3_000 : 100,
  });
});
