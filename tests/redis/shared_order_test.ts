/**
 * Readers, writers and calls with limits in several processes: first come, first served.
 */
import { assert, assertEquals } from "@std/assert";
import { RedisLock } from "../../redis/mod.ts";
import { type RedisServer, startRedis } from "../../testing/servers/redis.ts";
import { waitUntil } from "../../testing/servers/wait.ts";
import { say } from "../../testing/processes/figures.ts";
import { onlyFencesLeft } from "../../testing/redis/traces.ts";
import { openRedisClient } from "../../testing/redis/clients.ts";
import { within } from "../../testing/conformance/bounds.ts";
import {
  type Grant,
  inversions,
  mixedOverlaps,
  startWorker,
  type Worker,
  type WorkerOptions,
} from "../../testing/processes/workers.ts";
import { LONG_BOUND_MS, LONG_TTL_MS } from "../../testing/time.ts";

/** The soak runs the full figures. */
const IS_SOAK = Boolean(Deno.env.get("HOLDFAST_SOAK"));
const GRANTS = IS_SOAK ? 20_000 : 600;
const WRITERS = IS_SOAK ? 200 : 10;
const TTL_MS = LONG_TTL_MS;
const PROCESSES = 4;
const WAITERS = 50;
const SEED = Number(Deno.env.get("HOLDFAST_SEED") ?? 20_261_124);
const BOUND_MS = LONG_BOUND_MS;

function start(server: RedisServer, options: Partial<WorkerOptions>): Worker[] {
  const common = { url: server.url, keyPrefix: "fifo:", ttlMs: TTL_MS };
  const spec = { strategy: "redis", client: "node-redis", ...common } as const;
  return Array.from({ length: PROCESSES }, (_, i) => {
    const waiters = Math.floor((WAITERS + i) / PROCESSES);
    return startWorker({ spec, name: "n", waiters, aborts: false, seed: SEED + i, ...options });
  });
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
  say(`seed ${SEED}`);
  await using server = await startRedis();
  const workers = start(server, {
    modes: [{}, { mode: "shared" }, { mode: "shared" }, { limit: 2 }, { limit: 5 }],
  });
  const all = () => workers.flatMap(({ grants }) => grants);
  try {
    await waitUntil("enough were granted", () => all().length >= GRANTS, BOUND_MS);
    for (const worker of workers) assertEquals(await worker.finish(), 0);
    assertEquals(inversions(ofKnownOrder(all())), 0, `seed ${SEED}`);
    assertEquals(mixedOverlaps(all()), 0, `seed ${SEED}`);
    const shared = all().filter(({ mode }) => mode === "shared").length;
    say(`${all().length} grants, ${shared} of them shared`);
  } finally {
    for (const worker of workers) await worker[Symbol.asyncDispose]();
  }
  await onlyFencesLeft(server, TTL_MS);
});

Deno.test("RedisLock lets a writer in among constant readers when those ahead of it have left", async () => {
  await using server = await startRedis();
  const { client, close } = await openRedisClient("node-redis", server.url);
  const workers = start(server, { modes: [{ mode: "shared" }] });
  {
    await using lock = new RedisLock(client, { keyPrefix: "fifo:", ttlMs: TTL_MS });
    try {
      for (let i = 0; i < WRITERS; i++) {
        const read = () => workers.reduce((sum, { grants }) => sum + grants.length, 0);
        const before = read();
        await waitUntil("readers come and go", () => read() > before, BOUND_MS);
        let ahead = 0;
        const onWait = ({ position = 0 }) => void (ahead = Math.max(ahead, position));
        const lease = await within("the writer is granted the lock", lock.acquire("n", { onWait }));
        assert(ahead <= WAITERS + 1, `${ahead} of ${WAITERS} readers were ahead`);
        assertEquals((await lock.query("n")).holderCount, 1);
        await lease.release();
      }
      for (const worker of workers) assertEquals(await worker.finish(), 0);
    } finally {
      for (const worker of workers) await worker[Symbol.asyncDispose]();
    }
  }
  await close();
  await onlyFencesLeft(server, TTL_MS);
});
