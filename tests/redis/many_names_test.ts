/**
 * Thousands of different locks that one fresh instance asks for at once.
 */
import { assertEquals } from "@std/assert";
import { runNames } from "../../testing/load/names.ts";
import { say } from "../../testing/processes/figures.ts";
import { type RedisServer, startRedis } from "../../testing/servers/redis.ts";
import { CONDITION_BOUND_MS, LONG_TTL_MS } from "../../testing/time.ts";

/** The soak runs the full figure, too. */
const COUNTS = Deno.env.get("HOLDFAST_SOAK") ? [20_000, 100_000] : [2_000];
/** How many keys are looked at in the end. */
const SAMPLE = 100;
const TTL_MS = LONG_TTL_MS;

/** A look at each key would take longer than the calls. */
async function nothingHeld({ command }: RedisServer): Promise<void> {
  assertEquals(await command("KEYS", "lock:*"), []);
  const queues = await command("KEYS", "holdfast:1:*") as string[];
  say(`${queues.length} keys of queues are left, by tombstones`);
  for (const key of queues.slice(0, SAMPLE)) {
    const type = await command("TYPE", key);
    const entries = await command(...type === "zset" ? ["ZRANGE", key, 0, -1] : ["HKEYS", key]);
    assertEquals((entries as string[]).filter((entry) => !entry.startsWith("tombstone")), []);
  }
}

for (const client of ["node-redis", "ioredis"] as const) {
  for (const method of ["acquire", "tryAcquire"] as const) {
    for (const count of COUNTS) {
      Deno.test(`RedisLock.${method}() grants ${count.toLocaleString("en")} names that are asked for at once (${client})`, async () => {
        await using server = await startRedis();
        const place = { client, url: server.url, keyPrefix: "lock:", ttlMs: TTL_MS };
        // A busy machine needs longer than the usual budget for all answers: that is not an outage.
        const spec = {
          strategy: "redis",
          ...place,
          unavailableAfterMs: CONDITION_BOUND_MS,
        } as const;
        const { seconds, beforeMb, peakMb, ...counts } = await runNames({ spec, count, method });
        const memory = `${beforeMb} MB before, ${peakMb} MB at most`;
        say(`${client}, ${method}, ${count} names: ${seconds.toFixed(1)} s, ${memory}`);
        const expected = { granted: count, refused: 0, lost: 0, rejections: 0, text: "" };
        assertEquals(counts, expected);
        await nothingHeld(server);
      });
    }
  }
}
