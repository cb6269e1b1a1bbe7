/**
 * Readers, writers and calls with limits in several processes: first come, first served.
 */
import { assertEquals } from "@std/assert";
import { RedisLock } from "../../redis/mod.ts";
import { grantsInOrder, writerAmongReaders } from "../../testing/load/mixed_order.ts";
import { type RedisServer, startRedis } from "../../testing/servers/redis.ts";
import { onlyFencesLeft } from "../../testing/redis/traces.ts";
import { openRedisClient } from "../../testing/redis/clients.ts";
import { type Grant, inversions } from "../../testing/processes/workers.ts";
import { LONG_TTL_MS } from "../../testing/time.ts";

/** The soak runs the full figures. */
const IS_SOAK = Boolean(Deno.env.get("HOLDFAST_SOAK"));
const GRANTS = IS_SOAK ? 20_000 : 600;
const WRITERS = IS_SOAK ? 200 : 10;
const TTL_MS = LONG_TTL_MS;
const SEED = Number(Deno.env.get("HOLDFAST_SEED") ?? 20_261_124);

function callsOf({ url }: RedisServer) {
  const common = { url, keyPrefix: "fifo:", ttlMs: TTL_MS };
  const spec = { strategy: "redis", client: "node-redis", ...common } as const;
  return { spec, name: "n", seed: SEED };
}

/**
 * Leaves out tokens that two leases have: a holder that asked again, since its claim was almost over, got the
 * last token, which does not tell when it was granted the lock.
 */
function ofKnownOrder(grants: readonly Grant[]): Grant[] {
  const byToken = Map.groupBy(grants, ({ token }) => token);
  return [...byToken.values()].filter(({ length }) => length === 1).flat();
}

Deno.test("RedisLock grants the lock in order when readers, writers and calls with limits are in several processes", async () => {
  await using server = await startRedis();
  const modes = [{}, { mode: "shared" }, { mode: "shared" }, { limit: 2 }, { limit: 5 }] as const;
  const grants = await grantsInOrder({ ...callsOf(server), modes }, GRANTS);
  assertEquals(inversions(ofKnownOrder(grants)), 0, `by tokens; seed ${SEED}`);
  await onlyFencesLeft(server, TTL_MS);
});

Deno.test("RedisLock lets a writer in among constant readers when those ahead of it have left", async () => {
  await using server = await startRedis();
  const { client, close } = await openRedisClient("node-redis", server.url);
  {
    await using lock = new RedisLock(client, { keyPrefix: "fifo:", ttlMs: TTL_MS });
    await writerAmongReaders(callsOf(server), lock, WRITERS);
  }
  await close();
  await onlyFencesLeft(server, TTL_MS);
});
