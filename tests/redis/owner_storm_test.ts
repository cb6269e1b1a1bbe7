/**
 * Concurrent calls with caller-made owner ids, under random faults: they take leases over, are aborted,
 * and lose replies and connections. Never two holders, and nothing is left on the server.
 */
import { assert } from "@std/assert";
import { type Lease, LockError } from "../../mod.ts";
import { RedisLock } from "../../redis/mod.ts";
import { within } from "../../testing/conformance/bounds.ts";
import { say } from "../../testing/processes/figures.ts";
import { randomOf, seedOf } from "../../testing/processes/random.ts";
import { startProxy } from "../../testing/servers/proxy.ts";
import { startRedis } from "../../testing/servers/redis.ts";
import { pause } from "../../testing/servers/wait.ts";
import { openRedisClient } from "../../testing/redis/clients.ts";
import { nothingAtLast } from "../../testing/redis/traces.ts";
import { CONDITION_BOUND_MS, scaled } from "../../testing/time.ts";

const STORM_MS = Deno.env.get("HOLDFAST_SOAK") ? 60_000 : 1_000;
const PATIENCE_MS = CONDITION_BOUND_MS;
const MIN_GRANTS = 50;
const TTL_MS = scaled(1_500);
/** How many callers each instance has. */
const CALLERS = 6;

/** The leases that were granted and may still be held. */
class Held {
  readonly #leases = new Map<Lease, RedisLock>();
  grants = 0;

  /** Asserts that only one owner id holds the lock, with at most one lease per instance. */
  add(lease: Lease, lock: RedisLock): void {
    this.grants++;
    for (const [other, otherLock] of this.#leases) {
      if (other === lease) continue;
      if (other.remainingMs === 0) this.#leases.delete(other);
      else if (other.ownerId !== lease.ownerId) assert(lease.remainingMs === 0, "two ids hold");
      else assert(lock !== otherLock || lease.remainingMs === 0, "one id has two leases");
    }
    this.#leases.set(lease, lock);
  }
}

/** Makes a random call: acquire, try or attach. Aborts it at a random time. */
async function callOnce(lock: RedisLock, ids: string[], held: Held, random: () => number) {
  const ownerId = ids[Math.floor(random() * ids.length)]!;
  const signal = AbortSignal.timeout(random() < 0.3 ? random() * 20 : 10_000);
  const options = { signal, ...(random() < 0.2 && { autoRenew: false }) };
  const kind = random();
  const call = kind < 0.5
    ? lock.acquire("n", { ...options, ownerId })
    : kind < 0.8
    ? lock.tryAcquire("n", { ...options, ownerId })
    : lock.attach("n", ownerId, options);
  const lease = await within("it ends", call).catch((error) => {
    const isRefused = error instanceof LockError && error.code === "ERR_LOCK";
    assert(isRefused || error === signal.reason || error.name === "AbortError", String(error));
    return null;
  });
  if (lease === null) return;
  held.add(lease, lock);
  await pause(random() * 5);
  if (random() < 0.8) await lease.release();
}

for (const clientName of ["node-redis", "ioredis", "deno-redis-like"] as const) {
  Deno.test(`RedisLock × ${clientName}: calls with owner ids never overlap and leave nothing behind under random faults`, async () => {
    const seed = seedOf();
    const random = randomOf(seed);
    await using server = await startRedis();
    await using proxy = startProxy(server);
    const url = `redis://${proxy.hostname}:${proxy.port}`;
    const far = await openRedisClient(clientName, url);
    const near = await openRedisClient("node-redis", server.url);
    const held = new Held();
    try {
      const options = { ttlMs: TTL_MS, unavailableAfterMs: CONDITION_BOUND_MS };
      await using a = new RedisLock(far.client, options);
      await using b = new RedisLock(near.client, options);
      const untilMs = performance.now() + STORM_MS;
      // On a busy machine it takes longer until the calls have met often enough.
      const isOver = () => {
        const leftMs = untilMs - performance.now();
        return leftMs <= 0 && (held.grants > MIN_GRANTS || leftMs <= -PATIENCE_MS);
      };
      const callers = [[a, ["a1", "a2"]], [b, ["b1", "b2"]]] as const;
      const work = callers.flatMap(([lock, ids]) =>
        Array.from({ length: CALLERS }, async () => {
          while (!isOver()) await callOnce(lock, [...ids], held, random);
        })
      );
      proxy.onReply = () => random() < 0.1 ? { delayMs: random() * 30 } : "pass";
      while (!isOver()) {
        await pause(random() * 200);
        if (random() < 0.3) proxy.cutAll();
      }
      proxy.onReply = undefined;
      await Promise.all(work);
    } finally {
      await far.close();
      await near.close();
    }
    say(`seed ${seed}: ${held.grants} grants`);
    assert(held.grants > MIN_GRANTS, "there were hardly any grants");
    await nothingAtLast(server, TTL_MS);
  });
}
