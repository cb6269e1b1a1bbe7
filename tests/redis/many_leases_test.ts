/**
 * Many leases of one process on a real server that stalls.
 */
import { assertEquals, assertGreater, assertLessOrEqual } from "@std/assert";
import { runLeases } from "../../testing/load/leases.ts";
import { say } from "../../testing/processes/figures.ts";
import { type RedisServer, startRedis } from "../../testing/servers/redis.ts";
import { pause } from "../../testing/servers/wait.ts";
import { scaled } from "../../testing/time.ts";

/** The soak runs the full figures. */
const IS_SOAK = Boolean(Deno.env.get("HOLDFAST_SOAK"));
const COUNTS = IS_SOAK ? [50_000, 100_000, 200_000] : [2_000];
/** More leases than that may be too many for a process on two cores: then it must lose only some. */
const MOST = 100_000;
const TTL_MS = scaled(IS_SOAK ? 10_000 : 5_000);
const STALL_MS = 0.3 * TTL_MS;

/** For so long in ms after a stall renewals are counted. */
const COUNTED_MS = STALL_MS;
/** When a lease that was just renewed is due again, in ms. */
const RENEW_MS = TTL_MS / 3;

const held = (leftMs: readonly number[]) => leftMs.filter((ms) => ms > 0).length;

async function scripts({ command }: RedisServer): Promise<number> {
  const info = String(await command("INFO", "commandstats"));
  return Number(/^cmdstat_evalsha:calls=(\d+)/m.exec(info)?.[1] ?? 0);
}

/**
 * How many leases end before they can be renewed, until a TTL after a stall of `stallMs`, if of those that are
 * due the one that ends first always comes first. Renewed leases are due again, and compete.
 */
function demandedLosses(leftMs: readonly number[], stallMs: number, renewalsPerMs: number): number {
  // In the order in which they end, which is the order in which they are due, too.
  const endsMs = leftMs.filter((ms) => ms > 0).sort((a, b) => a - b);
  let lost = 0;
  let nowMs = stallMs;
  for (let i = 0; i < endsMs.length && nowMs < stallMs + TTL_MS; i++) {
    const endMs = endsMs[i]!;
    const renewedMs = Math.max(nowMs, endMs - (TTL_MS - RENEW_MS)) + 1 / renewalsPerMs;
    if (endMs <= stallMs || renewedMs > endMs) {
      lost++;
      continue;
    }
    nowMs = renewedMs;
    endsMs.push(nowMs + TTL_MS);
  }
  return lost;
}

const percent = (part: number, whole: number) => `${part} (${(100 * part / whole).toFixed(1)} %)`;

for (const count of COUNTS) {
  Deno.test(`RedisLock keeps of ${count.toLocaleString("en")} leases those that a stall of the server leaves`, async () => {
    await using server = await startRedis();
    const place = { client: "node-redis", url: server.url, keyPrefix: "lock:" } as const;
    const spec = {
      strategy: "redis",
      ...place,
      ttlMs: TTL_MS,
      unavailableAfterMs: 60_000,
    } as const;
    await using leases = await runLeases({ spec, count });
    // No condition: a time without a fault must pass, in which each lease is renewed.
    await pause(TTL_MS);
    const startMs = performance.now();
    const before = await leases.leftMs();
    await server.pause();
    // No condition: how long the server stalls.
    await pause(STALL_MS);
    const executed = await Promise.all([server.resume(), scripts(server)]).then(([, n]) => n);
    const stallMs = performance.now() - startMs;
    // No condition: for how long renewals are counted.
    await pause(COUNTED_MS);
    const renewalsPerMs = (await scripts(server) - executed) / COUNTED_MS;
    // No condition: each lease that was not renewed is over by then.
    await pause(TTL_MS - COUNTED_MS);
    const after = await leases.leftMs();
    const demanded = demandedLosses(before, stallMs, renewalsPerMs);
    const lost = held(before) - held(after);
    say(
      `${count} leases, ${held(before)} of them before the stall: ${percent(lost, held(before))} ` +
        `lost in a stall of ${Math.round(stallMs)} ms; at ${
          Math.round(1_000 * renewalsPerMs)
        } renewals/s the deadlines demand ` +
        percent(demanded, held(before)),
    );
    if (count <= MOST) {
      assertEquals(held(before), count);
      // A busy machine may be slower for a moment; with many leases that would be a collapse.
      if (IS_SOAK) assertGreater(renewalsPerMs, 0.5 * count / RENEW_MS, "renewals per ms");
      assertLessOrEqual(lost, (IS_SOAK ? demanded : 0) + 0.1 * count);
    }
    // No condition: the rest must last.
    await pause(TTL_MS / 2);
    const rest = held(await leases.leftMs());
    assertGreater(rest, 0.1 * held(before), "not all are lost");
    say(`${count} leases: ${held(after)} after the stall, ${rest} of them half a TTL later`);
    assertLessOrEqual(held(after) - rest, 0.05 * count, "the rest holds");
  });
}
