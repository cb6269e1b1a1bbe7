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

/** For so long in ms after a stall renewals are counted: no lease that was just renewed is over by then. */
const COUNTED_MS = STALL_MS;

const held = (leftMs: readonly number[]) => leftMs.filter((ms) => ms > 0).length;

async function scripts({ command }: RedisServer): Promise<number> {
  const info = String(await command("INFO", "commandstats"));
  return Number(/^cmdstat_evalsha:calls=(\d+)/m.exec(info)?.[1] ?? 0);
}

/** How many leases end before they can be renewed, if the one that ends first always comes first. */
function demandedLosses(leftMs: readonly number[], renewalsPerMs: number): number {
  let renewed = 0;
  const sorted = leftMs.filter((ms) => ms > 0).sort((a, b) => a - b);
  for (const ms of sorted) if ((renewed + 1) / renewalsPerMs <= ms - STALL_MS) renewed++;
  return sorted.length - renewed;
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
    const before = await leases.leftMs();
    await server.pause();
    // No condition: how long the server stalls.
    await pause(STALL_MS);
    const executed = await Promise.all([server.resume(), scripts(server)]).then(([, n]) => n);
    // No condition: for how long renewals are counted.
    await pause(COUNTED_MS);
    const renewalsPerMs = (await scripts(server) - executed) / COUNTED_MS;
    // No condition: each lease that was not renewed is over by then.
    await pause(TTL_MS - COUNTED_MS);
    const after = await leases.leftMs();
    const demanded = demandedLosses(before, renewalsPerMs);
    const lost = held(before) - held(after);
    say(
      `${count} leases, ${held(before)} of them before the stall: ${percent(lost, held(before))} ` +
        `lost; at ${Math.round(1_000 * renewalsPerMs)} renewals/s the deadlines demand ` +
        percent(demanded, held(before)),
    );
    if (count <= MOST) {
      assertEquals(held(before), count);
      assertLessOrEqual(lost, demanded + 0.1 * count);
    }
    // No condition: the rest must last.
    await pause(TTL_MS / 2);
    const rest = held(await leases.leftMs());
    assertGreater(rest, 0);
    say(`${count} leases: ${held(after)} after the stall, ${rest} of them half a TTL later`);
    assertLessOrEqual(held(after) - rest, 0.05 * count, "the rest holds");
  });
}
