/**
 * The actors of a forced race: a lock whose traffic passes gates, and another one that connects directly.
 *
 * @module
 */
import { assert, assertEquals } from "@std/assert";
import type { Lease } from "../../mod.ts";
import { type LockKeys, lockKeys } from "../../redis/protocol/keys.ts";
import { RedisLock, type RedisLockOptions } from "../../redis/mod.ts";
import { type RedisServer, startRedis } from "../servers/redis.ts";
import { waitUntil } from "../servers/wait.ts";
import { openRedisClient } from "./clients.ts";
import { gated, type Gates } from "./gated_client.ts";
import { queueLength } from "./queue_reader.ts";
import { nothingLeft, provenInboxes } from "./traces.ts";

/** Far longer than any test waits, in ms: no expiry can hide a mistake. */
export const TTL_MS = 60_000;
/** The longest TTL in ms that a scene uses. */
const LONGEST_MS = 600_000;
/** Half a claim, the limit for what must happen at once, in ticks of this process. */
const AT_ONCE_TICKS = 150;
const TICK_MS = 10;

/** The actors. All locks are called "n". */
export interface Stage {
  readonly server: RedisServer;
  readonly keys: LockKeys;
  /** The lock whose traffic passes the gates. */
  readonly lock: RedisLock;
  readonly gates: Gates;
  readonly other: RedisLock;
  /** Reads the lock key. */
  holder(): Promise<string | null>;
  /** How many waiters are in the queue. */
  waiting(): Promise<number>;
  /** Makes `other` hold the lock, and `lock` wait for it, first in line and subscribed. */
  queueUp(signal?: AbortSignal): Promise<{ held: Lease; waiting: Promise<Lease> }>;
  /** Asserts that `other` gets the lock without waiting for the end of a claim or a TTL. */
  freeAtOnce(): Promise<void>;
}

/** Plays a scene. Asserts that it leaves nothing on the server. The options are those of `lock`. */
export async function play(
  scene: (stage: Stage) => Promise<void>,
  options: RedisLockOptions = {},
): Promise<void> {
  await using server = await startRedis();
  const near = await openRedisClient("node-redis", server.url);
  const far = await openRedisClient("node-redis", server.url);
  try {
    const { client, gates } = gated(far.client);
    await using lock = new RedisLock(client, { ttlMs: TTL_MS, ...options });
    await using other = new RedisLock(near.client, { ttlMs: TTL_MS });
    await scene(stage(server, lock, other, gates));
  } finally {
    await near.close();
    await far.close();
  }
  await nothingLeft(server, LONGEST_MS);
}

function stage(server: RedisServer, lock: RedisLock, other: RedisLock, gates: Gates): Stage {
  const keys = lockKeys("lock:", "n");
  const { command } = server;
  const waiting = () => queueLength(command, keys);
  return {
    ...{ server, keys, lock, other, gates, waiting },
    holder: async () => await command("GET", keys.lock) as string | null,
    async queueUp(signal) {
      const held = await other.acquire("n");
      const waits = lock.acquire("n", signal === undefined ? {} : { signal });
      waits.catch(() => {}); // it is awaited later
      await waitUntil("it waits", async () => await waiting() === 1);
      await waitUntil("its inbox is proven", async () => {
        return (await provenInboxes(command, keys.waiters)).length === 1;
      });
      return { held, waiting: waits };
    },
    async freeAtOnce() {
      const lease = await atOnce("the lock is free", other.acquire("n"));
      assert(lease.remainingMs > 0);
      assertEquals(await lease.release(), true);
    },
  };
}

/**
 * Waits for what must happen at once, in less than half a claim. Counts ticks instead of time: while a busy
 * machine stops this process, nothing can happen.
 *
 * @param what The awaited event in words, for the error message.
 * @throws {Error} If the promise does not settle by then.
 */
export async function atOnce<T>(what: string, promise: PromiseLike<T>): Promise<T> {
  const late = Promise.withResolvers<never>();
  let ticksLeft = AT_ONCE_TICKS;
  const timer = setInterval(() => {
    if (--ticksLeft === 0) late.reject(new Error(`Timed out after half a claim: ${what}`));
  }, TICK_MS);
  try {
    return await Promise.race([promise, late.promise]);
  } finally {
    clearInterval(timer);
  }
}

/** Asserts that the lease holds the lock, that no other does, and that no call waits. */
export async function isTheOne(stage: Stage, lease: Lease): Promise<void> {
  lease.throwIfLost();
  assert((await stage.holder())?.startsWith(lease.ownerId));
  assertEquals(await stage.other.tryAcquire("n"), null);
  assertEquals(await stage.waiting(), 0);
  await lease.renew();
}
