/**
 * Overlapping sets of names by several processes, under kills and cuts.
 */
import { setsStorm } from "../../testing/load/sets_storm.ts";
import { startProxy } from "../../testing/servers/proxy.ts";
import { startRedis } from "../../testing/servers/redis.ts";
import { ENDING_TTL_MS } from "../../testing/time.ts";

Deno.test("acquireAll() of overlapping sets never deadlocks and leaks no name under kills and cuts: RedisLock", async () => {
  await using redis = await startRedis();
  await using proxy = startProxy(redis);
  const spec = {
    strategy: "redis",
    client: "node-redis",
    keyPrefix: "",
    ttlMs: ENDING_TTL_MS,
    url: redis.url,
  } as const;
  await setsStorm({
    spec: { ...spec, url: `redis://127.0.0.1:${proxy.port}` },
    calmSpec: spec,
    cut: () => proxy.cutAll(),
  });
});
