/**
 * The actors of a forced race: a lock behind gates, and others on clients of their own.
 *
 * @module
 */
import { assert, assertEquals } from "@std/assert";
import type { Lease } from "../../mod.ts";
import { type LockKeys, lockKeys } from "../../redis/protocol/keys.ts";
import { RedisLock } from "../../redis/mod.ts";
import { within } from "../conformance/wait.ts";
import { type RedisServer, startRedis } from "../servers/redis.ts";
import { waitUntil } from "../servers/wait.ts";
import { openRedisClient } from "./clients.ts";
import { gated, type Gates } from "./gated_client.ts";
import { nothingLeft, provenInboxes } from "./traces.ts";

/** Far longer than any test waits: nothing is solved by an expiry. */
export const TTL_MS = 60_000;
/** The longest life in ms that a scene asks for. */
const LONGEST_MS = 600_000;
/** What must come at once must come before half a claim is over. */
export const AT_ONCE_MS = 1_500;

/** The actors. All locks are called "n". */
export interface Stage {
  readonly server: RedisServer;
  readonly keys: LockKeys;
  /** The one whose traffic is tampered with. */
  readonly lock: RedisLock;
  readonly gates: Gates;
  readonly other: RedisLock;
  /** What the lock key holds. */
  holder(): Promise<string | null>;
  /** How many wait. */
  waiting(): Promise<number>;
  /** A waiter behind the gates, first in line behind the other one. */
  queueUp(signal?: AbortSignal): Promise<{ held: Lease; waiting: Promise<Lease> }>;
  /** Somebody else gets the lock, without waiting for a claim or a TTL to end. */
  freeAtOnce(): Promise<void>;
}

/** Plays a scene; nothing of it is left on the server. */
export async function play(scene: (stage: Stage) => Promise<void>): Promise<void> {
  await using server = await startRedis();
  const near = await openRedisClient("node-redis", server.url);
  const far = await openRedisClient("node-redis", server.url);
  try {
    const { client, gates } = gated(far.client);
    await using lock = new RedisLock(client, { ttlMs: TTL_MS });
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
  const waiting = async () => Number(await command("ZCARD", keys.queue));
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
      const lease = await within("the lock is free", other.acquire("n"), AT_ONCE_MS);
      assert(lease.remainingMs > 0);
      assertEquals(await lease.release(), true);
    },
  };
}

/** The lease is the one and only, and ends with its release. */
export async function isTheOne(stage: Stage, lease: Lease): Promise<void> {
  lease.throwIfLost();
  assert((await stage.holder())?.startsWith(lease.ownerId));
  assertEquals(await stage.other.tryAcquire("n"), null);
  assertEquals(await stage.waiting(), 0);
  await lease.renew();
}
