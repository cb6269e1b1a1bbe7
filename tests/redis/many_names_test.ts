/**
 * Thousands of different locks that one fresh instance asks for at once.
 */
import { assertEquals } from "@std/assert";
import { runNames } from "../../testing/load/names.ts";
import { say } from "../../testing/processes/figures.ts";
import { nothingLeft } from "../../testing/redis/traces.ts";
import { startRedis } from "../../testing/servers/redis.ts";

/** The soak runs the full figure, too. */
const COUNTS = Deno.env.get("HOLDFAST_SOAK") ? [20_000, 100_000] : [20_000];
const TTL_MS = 10_000;

for (const client of ["node-redis", "ioredis"] as const) {
  for (const method of ["acquire", "tryAcquire"] as const) {
    for (const count of COUNTS) {
      Deno.test(`RedisLock.${method}() grants ${count.toLocaleString("en")} names that are asked for at once (${client})`, async () => {
        await using server = await startRedis();
        const place = { client, url: server.url, keyPrefix: "lock:", ttlMs: TTL_MS };
        const spec = { strategy: "redis", ...place } as const;
        const { seconds, beforeMb, peakMb, ...counts } = await runNames({ spec, count, method });
        const memory = `${beforeMb} MB before, ${peakMb} MB at most`;
        say(`${client}, ${method}, ${count} names: ${seconds.toFixed(1)} s, ${memory}`);
        const expected = { granted: count, refused: 0, lost: 0, rejections: 0, text: "" };
        assertEquals(counts, expected);
        await nothingLeft(server, TTL_MS);
      });
    }
  }
}
