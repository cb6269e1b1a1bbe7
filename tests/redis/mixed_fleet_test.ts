/**
 * Other libraries on the same key: a plain `SET key token NX PX` excludes us, and we exclude it.
 */
import { assert, assertEquals, assertGreaterOrEqual, assertMatch } from "@std/assert";
import { Redis } from "ioredis";
import Redlock from "redlock";
import { Mutex } from "redis-semaphore";
import { RedisLock } from "../../redis/mod.ts";
import { ioredis } from "../../redis/clients/ioredis.ts";
import { within } from "../../testing/conformance/bounds.ts";
import { startRedis } from "../../testing/servers/redis.ts";
import { pause, waitUntil } from "../../testing/servers/wait.ts";
import { endIoredis } from "../../testing/redis/clients.ts";
import { say } from "../../testing/processes/figures.ts";
import { nothingLeft } from "../../testing/redis/traces.ts";
import { LONG_BOUND_MS, LONG_TTL_MS } from "../../testing/time.ts";

/** The soak runs the full figure. */
const SECTIONS = Deno.env.get("HOLDFAST_SOAK") ? 2_000 : 150;
const TTL_MS = LONG_TTL_MS;
/** redis-semaphore puts "mutex:" before the name. */
const KEY = "mutex:orders";
const RETRY_MS = 5;
const UNLOCK =
  `if redis.call("GET", KEYS[1]) == ARGV[1] then return redis.call("DEL", KEYS[1]) end return 0`;

/** Acquires the lock. Returns the function that releases it. */
type Take = () => Promise<() => Promise<unknown>>;

function rawTake(client: Redis): Take {
  return async () => {
    const token = crypto.randomUUID();
    while (await client.set(KEY, token, "PX", TTL_MS, "NX") === null) await pause(RETRY_MS);
    return () => client.eval(UNLOCK, 1, KEY, token);
  };
}

function redlockTake(client: Redis): Take {
  const settings = { retryCount: -1, retryDelay: RETRY_MS, retryJitter: 1 };
  const redlock = new Redlock([client], settings);
  return async () => {
    const lock = await redlock.acquire([KEY], TTL_MS);
    return () => lock.release();
  };
}

function semaphoreTake(client: Redis): Take {
  return async () => {
    const options = { lockTimeout: TTL_MS, acquireTimeout: LONG_BOUND_MS, retryInterval: RETRY_MS };
    const mutex = new Mutex(client, KEY.slice("mutex:".length), options);
    await mutex.acquire();
    return () => mutex.release();
  };
}

function ourTake(lock: RedisLock): Take {
  return async () => {
    const lease = await lock.acquire(KEY);
    return () => lease.release();
  };
}

/** The work of a program in and between its critical sections. */
// Paces a workload: others must get a chance to overlap.
function otherWork(): Promise<void> {
  return pause(1);
}

/**
 * Runs four contenders of each kind, so that one of ours always waits, until there were enough critical
 * sections. Counts these by kind.
 */
async function compete(takers: Record<string, Take>): Promise<Map<string, number>> {
  const counts = new Map(Object.keys(takers).map((kind) => [kind, 0]));
  let inside = 0;
  let sections = 0;
  const work = async (kind: string, take: Take) => {
    while (sections < SECTIONS) {
      const release = await take();
      assertEquals(++inside, 1, "two are inside");
      await otherWork();
      inside--;
      sections++;
      counts.set(kind, counts.get(kind)! + 1);
      await release();
      await otherWork();
    }
  };
  const kinds = Object.entries(takers);
  const all = [...kinds, ...kinds, ...kinds, ...kinds];
  await Promise.all(all.map(([kind, take]) => work(kind, take)));
  return counts;
}

Deno.test("RedisLock never overlaps with redlock, redis-semaphore or a plain SET NX PX on the same key", async () => {
  await using server = await startRedis();
  const clients = Array.from({ length: 4 }, () => new Redis(server.url).on("error", () => {}));
  const [a, b, c, d] = clients as [Redis, Redis, Redis, Redis];
  await waitUntil("all are connected", () => clients.every(({ status }) => status === "ready"));
  {
    await using lock = new RedisLock(ioredis(a), { keyPrefix: "", ttlMs: TTL_MS, handoff: false });
    const takers = {
      ours: ourTake(lock),
      redlock: redlockTake(b),
      "redis-semaphore": semaphoreTake(c),
      raw: rawTake(d),
    };
    const counts = await within("enough are done", compete(takers), LONG_BOUND_MS);
    say([...counts].map(([kind, count]) => `${kind} ${count}`).join(", "));
    for (const [kind, count] of counts) assertGreaterOrEqual(count, SECTIONS / 100, kind);
    assert(counts.size === 4);
  }
  for (const client of clients) await endIoredis(client);
  await nothingLeft(server);
});

Deno.test("an owner id is handed on between processes of RedisLock only: other libraries compare the whole value", async () => {
  await using server = await startRedis();
  const client = new Redis(server.url);
  {
    await using lock = new RedisLock(ioredis(client), { keyPrefix: "", handoff: false });
    const theirs = crypto.randomUUID();
    await client.set("theirs", theirs, "PX", TTL_MS, "NX");
    assertEquals(await lock.attach("theirs", theirs), null);
    const { ownerId } = await lock.acquire("ours", { outlivesDisposal: true });
    assertEquals(await client.eval(UNLOCK, 1, "ours", ownerId), 0);
    assertMatch(await client.get("ours") ?? "", new RegExp(`^${ownerId}#[0-9a-f]{16}$`));
    const lease = await lock.attach("ours", ownerId);
    assertEquals(await lease?.release(), true);
    assertEquals([await client.get("theirs"), await client.exists("ours")], [theirs, 0]);
    await client.del("theirs");
  }
  await endIoredis(client);
  await nothingLeft(server);
});
